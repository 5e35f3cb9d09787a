// Keeps other processes from using the same folder for the same thing.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::core {

// `launched`: a run that this folder's LaunchLock does not keep out.
enum class Entry : uint8_t { own, launched };

// Holds the folder from construction on, or throws ConfigError at once: another process's is never waited for. The
// folder itself is locked, and the file `lock` in it, which says who holds it: where the file system locks no folders
// (NFS), removing that file lets another in. The end of a process, however it comes, lets go; of a lock that is
// destroyed nothing stays, nor does a folder that it made and in which nothing was written.
class FolderLock {
 public:
  // The folder is made where it does not exist; throws DataError, too.
  explicit FolderLock(const std::filesystem::path& folder, Entry entry = Entry::own);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  static std::string_view file_name();  // in the folder
  bool held() const { return held_; }   // false: the file system knows no locks, and nothing is kept away

 private:
  void take();
  void refuse_launched() const;
  void let_go();
  [[noreturn]] void refuse(std::string holder) const;
  std::filesystem::path folder_, file_;
  std::vector<std::filesystem::path> made_;  // folders, the outermost first
  int place_ = -1, descriptor_ = -1;         // the folder, which may get another name; the file
  bool held_ = false;
};

// Keeps the folder for the runs that one supervisor starts, between them, too, by a lock of the file `launch.lock`.
// Throws like FolderLock where a run is in the folder or another supervisor has it.
class LaunchLock {
 public:
  explicit LaunchLock(const std::filesystem::path& folder);
  ~LaunchLock();
  LaunchLock(const LaunchLock&) = delete;
  LaunchLock& operator=(const LaunchLock&) = delete;

 private:
  void let_go();
  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace zrt::core
