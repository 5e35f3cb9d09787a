#include "runtime/data/text_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/error.h"

namespace zrt::runtime::data {

using core::DataError;

namespace {

constexpr size_t buffer_bytes = 256 << 10;

}  // namespace

// zlib's own reader of files takes the end of a gzip member for that of the text when no other one follows, and drops
// what does. This one reads members one after the other, and refuses what is none.
struct TextReader::Impl {
  std::string path;
  std::FILE* file = nullptr;
  bool compressed = false;
  std::vector<unsigned char> buffer = std::vector<unsigned char>(buffer_bytes);
  z_stream stream{};
  bool inflating = false;  // zlib has memory in `stream`
  bool in_member = false;
  bool any_member = false;

  ~Impl() {
    if (inflating) inflateEnd(&stream);
    if (file != nullptr) std::fclose(file);
  }

  [[noreturn]] void fail(const std::string& reason) const { throw DataError(fmt::format("{}: {}.", path, reason)); }

  size_t from_file(void* out, size_t bytes) const {
    errno = 0;
    const size_t count = std::fread(out, 1, bytes, file);
    if (count < bytes && std::ferror(file)) fail(fmt::format("cannot read it: {}", std::strerror(errno)));
    return count;
  }

  // False at the end of the file.
  bool fill() {
    if (stream.avail_in > 0) return true;
    stream.next_in = buffer.data();
    stream.avail_in = static_cast<uInt>(from_file(buffer.data(), buffer.size()));
    return stream.avail_in > 0;
  }

  // Skips the zeros that tapes and some tools fill up with. False where no member follows.
  bool begins_member() {
    while (any_member && fill() && *stream.next_in == 0) ++stream.next_in, --stream.avail_in;
    if (!fill()) return false;
    if (*stream.next_in != 0x1f) {
      fail(fmt::format(
          "behind its gzip data lie bytes that are none, from byte {} on. Are two files in it? Compress the "
          "whole text",
          std::ftell(file) - static_cast<long>(stream.avail_in)));
    }
    if (inflateReset(&stream) != Z_OK) fail("out of memory");
    return in_member = any_member = true;
  }

  size_t inflate_some(char* out, size_t bytes) {
    stream.next_out = reinterpret_cast<unsigned char*>(out);
    stream.avail_out = static_cast<uInt>(bytes);
    while (stream.avail_out > 0 && (in_member || begins_member())) {
      if (!fill()) fail("the gzip data is truncated: unexpected end of file");
      const int code = inflate(&stream, Z_NO_FLUSH);
      if (code == Z_STREAM_END) in_member = false;
      if (code == Z_MEM_ERROR) fail("out of memory");
      if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
        fail(fmt::format("the gzip data is corrupt: {}", stream.msg ? stream.msg : "zlib gives no reason"));
      }
    }
    return bytes - stream.avail_out;
  }
};

TextReader::TextReader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->compressed = has_suffix(path, ".gz");
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) impl_->fail(fmt::format("cannot open it: {}", std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) impl_->fail("it is not a regular file; text is read from files, some of it twice");
  impl_->file = std::fopen(path.c_str(), "rbe");
  if (impl_->file == nullptr) impl_->fail(fmt::format("cannot open it: {}", std::strerror(errno)));
  unsigned char magic[2] = {};
  const bool gzip = impl_->from_file(magic, 2) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  std::rewind(impl_->file);
  if (gzip && !impl_->compressed) impl_->fail("it is gzip data; give it a name that ends in .gz");
  if (!gzip && impl_->compressed && status.st_size > 0) {
    impl_->fail("its name ends in .gz but it is not gzip data. Rename or compress it");
  }
  if (!impl_->compressed) return;
  if (inflateInit2(&impl_->stream, MAX_WBITS + 16) != Z_OK) impl_->fail("out of memory");  // 16: gzip alone
  impl_->inflating = true;
}

TextReader::~TextReader() = default;
TextReader::TextReader(TextReader&&) noexcept = default;

size_t TextReader::read(char* out, size_t bytes) {
  bytes = std::min<size_t>(bytes, 1u << 30);
  return impl_->compressed ? impl_->inflate_some(out, bytes) : impl_->from_file(out, bytes);
}

bool has_suffix(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace zrt::runtime::data
