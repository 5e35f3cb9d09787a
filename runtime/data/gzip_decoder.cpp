#include <fmt/format.h>
#include <zlib.h>

#include "runtime/data/decoder.h"

namespace zrt::runtime::data {

namespace {

constexpr size_t gzip_buffer_bytes = 256 << 10;

// zlib's own reader of files takes the end of a gzip member for that of the text when no other one follows, and drops
// what does. This one reads members one after the other, and refuses what is none.
class GzipDecoder : public Decoder {
 public:
  explicit GzipDecoder(const RawFile& file) : file_(file), buffer_(gzip_buffer_bytes) {
    if (inflateInit2(&stream_, MAX_WBITS + 16) != Z_OK) file_.fail("out of memory");  // 16: gzip alone
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  size_t read(char* out, size_t bytes) override {
    stream_.next_out = reinterpret_cast<unsigned char*>(out);
    stream_.avail_out = static_cast<uInt>(bytes);
    while (stream_.avail_out > 0 && (in_member_ || begins_member())) {
      if (!fill()) file_.fail("the gzip data is truncated: unexpected end of file");
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) in_member_ = false;
      if (code == Z_MEM_ERROR) file_.fail("out of memory");
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        file_.fail(fmt::format("the gzip data is corrupt: {}", stream_.msg ? stream_.msg : "zlib gives no reason"));
      }
    }
    return bytes - stream_.avail_out;
  }

 private:
  // False at the end of the file.
  bool fill() {
    if (stream_.avail_in > 0) return true;
    stream_.next_in = buffer_.data();
    stream_.avail_in = static_cast<uInt>(file_.read(buffer_.data(), buffer_.size()));
    return stream_.avail_in > 0;
  }

  // Skips the zeros that tapes and some tools fill up with. False where no member follows.
  bool begins_member() {
    while (any_member_ && fill() && *stream_.next_in == 0) ++stream_.next_in, --stream_.avail_in;
    if (!fill()) return false;
    if (*stream_.next_in != 0x1f) {
      file_.fail(
          fmt::format("other bytes follow its gzip data, from byte {} on. Are two files in it? Compress the "
                      "whole text",
                      std::ftell(file_.file) - static_cast<long>(stream_.avail_in)));
    }
    if (inflateReset(&stream_) != Z_OK) file_.fail("out of memory");
    return in_member_ = any_member_ = true;
  }

  const RawFile& file_;
  std::vector<unsigned char> buffer_;
  z_stream stream_{};
  bool in_member_ = false, any_member_ = false;
};

}  // namespace

std::unique_ptr<Decoder> make_gzip_decoder(const RawFile& file) {
  return std::make_unique<GzipDecoder>(file);
}

}  // namespace zrt::runtime::data
