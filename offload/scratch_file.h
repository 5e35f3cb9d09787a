// A file that belongs to one live process: taken with all its space, removed when it is no longer needed. What a dead
// process left under the same name is replaced, a live one's is refused.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace zrt::offload {

using Warn = std::function<void(const std::string&)>;

class ScratchFile {
 public:
  // 0600, opened past the page cache where the file system can, else with a warning. Throws DataError with the needed
  // and free bytes when there is too little room, and with the system's reason.
  ScratchFile(std::filesystem::path path, uint64_t bytes, const Warn& warn);
  ~ScratchFile();  // removes the file, if its name still means this file
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // Throws DataError when the file was deleted, shortened or closed since.
  void check() const;

  int descriptor() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void claim();
  bool replace_leftover();
  void open_direct(const Warn& warn);
  void take_space(const Warn& warn);
  bool has_its_name() const;
  void remove();
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  uint64_t bytes_;
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace zrt::offload
