#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "runtime/data/decoder.h"

namespace zrt::runtime::data {

namespace {

class ZstdDecoder : public Decoder {
 public:
  explicit ZstdDecoder(const RawFile& file)
      : file_(file), stream_(ZSTD_createDStream()), buffer_(ZSTD_DStreamInSize()) {
    if (stream_ == nullptr) file_.fail("out of memory");
  }
  ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;

  size_t read(char* out, size_t bytes) override {
    ZSTD_outBuffer to{out, bytes, 0};
    while (to.pos < to.size) {
      const bool more = fill();
      if (!more && !in_frame_) break;
      const size_t before = to.pos;
      const size_t code = ZSTD_decompressStream(stream_, &to, &from_);
      if (ZSTD_isError(code) != 0) refuse(code);
      in_frame_ = code != 0;  // 0: a frame is whole, and all of it was handed out
      any_frame_ = any_frame_ || !in_frame_;
      if (!more && to.pos == before) file_.fail("the zstd data is truncated: unexpected end of file");
    }
    return to.pos;
  }

 private:
  // False at the end of the file.
  bool fill() {
    if (from_.pos < from_.size) return true;
    from_ = {buffer_.data(), file_.read(buffer_.data(), buffer_.size()), 0};
    return from_.size > 0;
  }

  [[noreturn]] void refuse(size_t code) const {
    if (ZSTD_getErrorCode(code) == ZSTD_error_prefix_unknown && any_frame_) {
      file_.fail("other bytes follow its zstd data. Are two files in it? Compress the whole text");
    }
    // Frames of `zstd --long=31`, for example, whose text can only be read with 2 GiB of it in memory.
    if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge) {
      file_.fail(
          fmt::format("its zstd data needs a window of more than 128 MiB of memory. Compress it anew: zstd -dc "
                      "--long=31 {0} | zstd > "
                      "NEW.zst",
                      file_.path));
    }
    file_.fail(fmt::format("the zstd data is corrupt: {}", ZSTD_getErrorName(code)));
  }

  const RawFile& file_;
  ZSTD_DStream* stream_;
  std::vector<char> buffer_;
  ZSTD_inBuffer from_{nullptr, 0, 0};
  bool in_frame_ = false, any_frame_ = false;
};

}  // namespace

std::unique_ptr<Decoder> make_zstd_decoder(const RawFile& file) {
  return std::make_unique<ZstdDecoder>(file);
}

}  // namespace zrt::runtime::data
