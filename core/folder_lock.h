// Keeps other processes from using the same folder for the same thing.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace zrt::core {

// Holds the folder from construction on, or throws ConfigError at once: another process's is never waited for. The file
// `lock` in the folder says who holds it. The end of a process, however it comes, lets go; of a lock that is destroyed
// nothing stays, nor does a folder that it made and in which nothing was written.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);  // made where it does not exist; throws DataError, too
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool held() const { return held_; }  // false: the file system knows no locks, and nothing is kept away

 private:
  void take();
  std::filesystem::path folder_, file_;
  std::vector<std::filesystem::path> made_;  // folders, the outermost first
  int place_ = -1, descriptor_ = -1;         // the folder, which may get another name; the file
  bool held_ = false;
};

}  // namespace zrt::core
