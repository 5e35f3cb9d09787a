// The bytes of a text file, decompressed when its name ends in .gz.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace zrt::runtime::data {

class TextReader {
 public:
  // Throws DataError naming the file when it cannot be opened, is not a regular file, or ends in .gz without being
  // gzip.
  explicit TextReader(const std::string& path);
  ~TextReader();
  TextReader(TextReader&&) noexcept;

  // Up to `bytes` bytes; 0 at the end. Throws DataError naming the file when reading fails or the compressed data is
  // corrupt or truncated.
  size_t read(char* out, size_t bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

bool has_suffix(const std::string& text, const std::string& suffix);

}  // namespace zrt::runtime::data
