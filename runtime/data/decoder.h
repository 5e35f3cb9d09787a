// Decompression of a file, from its first byte to its last.
#pragma once
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace zrt::runtime::data {

// An open file that is read once from its begin.
struct RawFile {
  RawFile() = default;
  ~RawFile();
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  // Throws DataError: PATH: reason.
  [[noreturn]] void fail(const std::string& reason) const;
  // Up to `bytes` bytes, fewer only at the end. Throws DataError with the system's reason.
  size_t read(void* out, size_t bytes) const;

  std::string path;
  std::FILE* file = nullptr;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Up to `bytes` bytes of text; 0 at the end. Throws DataError naming the file when its data is corrupt, truncated, or
  // followed by bytes that are none.
  virtual size_t read(char* out, size_t bytes) = 0;
};

// One member or frame may follow the other. `file` must outlive the decoder.
std::unique_ptr<Decoder> make_gzip_decoder(const RawFile& file);
std::unique_ptr<Decoder> make_zstd_decoder(const RawFile& file);

}  // namespace zrt::runtime::data
