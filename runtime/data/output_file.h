// A file written under PATH.partial and renamed to PATH when it is complete, so that PATH never names half a file.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace zrt::runtime::data {

class OutputFile {
 public:
  // Opens and locks PATH.partial. Throws DataError when it cannot, or when another process is writing it.
  explicit OutputFile(std::string path);
  ~OutputFile();  // removes the partial file unless published
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Buffered. Throws DataError with the system's reason (for example a full disk).
  void write(const void* data, size_t bytes);
  void seal();     // writes what is buffered and waits for the disk; no write may follow
  void publish();  // renames; seals first if need be

  const std::string& path() const { return path_; }

 private:
  void flush();
  [[noreturn]] void fail(const char* what) const;

  std::string path_, partial_;
  int file_ = -1;
  bool sealed_ = false;
  std::vector<std::byte> buffer_;
};

// Waits until the renames and removals in the folder of `path` are on disk.
void sync_folder_of(const std::string& path);

}  // namespace zrt::runtime::data
