#include "models/data/text_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace zrt::models::data {

using core::DataError;

// zlib reads plain files too ("transparently"), so one path serves both.
struct TextReader::Impl {
  std::string path;
  gzFile file = nullptr;
  bool compressed = false;
  ~Impl() {
    if (file != nullptr) gzclose_r(file);
  }
};

TextReader::TextReader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  impl_->compressed = has_suffix(path, ".gz");
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw DataError(fmt::format("{}: cannot open it: {}.", path, std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    throw DataError(fmt::format("{}: it is not a regular file; text is read from files, some of it twice.", path));
  errno = 0;
  impl_->file = gzopen(path.c_str(), "rb");
  if (impl_->file == nullptr)
    throw DataError(fmt::format("{}: cannot open it: {}.", path, errno != 0 ? std::strerror(errno) : "out of memory"));
  gzbuffer(impl_->file, 1u << 18);
  const bool gzip = gzdirect(impl_->file) == 0;
  if (gzip && !impl_->compressed)
    throw DataError(fmt::format("{}: it is gzip data; give it a name that ends in .gz.", path));
  if (!gzip && impl_->compressed && status.st_size > 0)
    throw DataError(fmt::format("{}: its name ends in .gz but it is not gzip data. Rename or compress it.", path));
}

TextReader::~TextReader() = default;
TextReader::TextReader(TextReader&&) noexcept = default;

size_t TextReader::read(char* out, size_t bytes) {
  const int count = gzread(impl_->file, out, static_cast<unsigned>(std::min<size_t>(bytes, 1u << 30)));
  int code = Z_OK;
  const char* reason = gzerror(impl_->file, &code);
  if (count >= 0 && code != Z_BUF_ERROR) return static_cast<size_t>(count);
  if (code == Z_ERRNO) reason = std::strerror(errno);
  throw DataError(fmt::format("{}: {}: {}.", impl_->path,
                              code == Z_BUF_ERROR ? "the gzip data is truncated"
                              : code == Z_ERRNO   ? "cannot read it"
                                                  : "the gzip data is corrupt",
                              reason));
}

bool has_suffix(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace zrt::models::data
