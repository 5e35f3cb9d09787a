// A file of one process: taken with all its space, and without a name from the start, so that its space is free again
// when the process ends, however it ends.
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
  // In the folder of `path`, which names the file in messages alone. 0600, opened past the page cache where the file
  // system can, else with a warning. Throws DataError with the needed and free bytes when there is too little room, and
  // with the system's reason.
  ScratchFile(std::filesystem::path path, uint64_t bytes, const Warn& warn);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  // Throws DataError when the file was shortened or closed since.
  void check() const;

  int descriptor() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  bool space_taken() const { return space_taken_; }  // false on a file system that cannot: writes may find a full disk

 private:
  void open_nameless();
  void open_direct(const Warn& warn);
  void take_space(const Warn& warn);
  [[noreturn]] void fail(const std::string& what) const;

  std::filesystem::path path_;
  uint64_t bytes_;
  int descriptor_ = -1;
  bool space_taken_ = true;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace zrt::offload
