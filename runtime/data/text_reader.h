// The bytes of a text file, decompressed when its name ends in .gz or .zst.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "runtime/data/decoder.h"

namespace zrt::runtime::data {

class TextReader {
 public:
  // Throws DataError naming the file when it cannot be opened, is not a regular file, or is not of the compression that
  // its name says.
  explicit TextReader(const std::string& path);

  // Up to `bytes` bytes; 0 at the end. Throws DataError naming the file when reading fails or the compressed data is
  // corrupt or truncated.
  size_t read(char* out, size_t bytes);

 private:
  std::unique_ptr<RawFile> file_;
  std::unique_ptr<Decoder> decoder_;  // of a compressed file
};

bool has_suffix(const std::string& text, const std::string& suffix);

// The ending that says a compression, .gz or .zst; "" for none.
std::string compression_ending(const std::string& name);
// The name without it.
std::string uncompressed_name(const std::string& name);
// The program that prints the file's text: cat, zcat or zstdcat.
const char* printing_program(const std::string& path);

}  // namespace zrt::runtime::data
