#include "runtime/data/text_reader.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "core/error.h"

namespace zrt::runtime::data {

namespace {

struct Compression {
  const char *ending, *name, *program;
  std::string_view magic;
  std::unique_ptr<Decoder> (*make)(const RawFile& file);
};
constexpr Compression compressions[] = {
    {".gz", "gzip", "zcat", "\x1f\x8b", make_gzip_decoder},
    {".zst", "zstd", "zstdcat", "\x28\xb5\x2f\xfd", make_zstd_decoder},
};

const Compression* compression_of(const std::string& name) {
  const auto* found = std::find_if(std::begin(compressions), std::end(compressions),
                                   [&](const Compression& each) { return has_suffix(name, each.ending); });
  return found == std::end(compressions) ? nullptr : found;
}

}  // namespace

RawFile::~RawFile() {
  if (file != nullptr) std::fclose(file);
}

void RawFile::fail(const std::string& reason) const {
  throw core::DataError(fmt::format("{}: {}.", path, reason));
}

size_t RawFile::read(void* out, size_t bytes) const {
  errno = 0;
  const size_t count = std::fread(out, 1, bytes, file);
  if (count < bytes && std::ferror(file)) fail(fmt::format("cannot read it: {}", std::strerror(errno)));
  return count;
}

TextReader::TextReader(const std::string& path) : file_(std::make_unique<RawFile>()) {
  file_->path = path;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) file_->fail(fmt::format("cannot open it: {}", std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) file_->fail("it is not a regular file; text is read from files, some of it twice");
  file_->file = std::fopen(path.c_str(), "rbe");
  if (file_->file == nullptr) file_->fail(fmt::format("cannot open it: {}", std::strerror(errno)));
  char bytes[4] = {};
  const std::string_view head(bytes, file_->read(bytes, sizeof bytes));
  std::rewind(file_->file);
  const Compression* said = compression_of(path);
  for (const Compression& each : compressions) {
    if (head.starts_with(each.magic) && &each != said)
      file_->fail(fmt::format("it is {} data; give it a name that ends in {}", each.name, each.ending));
  }
  if (said == nullptr) return;
  if (!head.starts_with(said->magic) && status.st_size > 0) {
    file_->fail(
        fmt::format("its name ends in {} but it is not {} data. Rename or compress it", said->ending, said->name));
  }
  decoder_ = said->make(*file_);
}

size_t TextReader::read(char* out, size_t bytes) {
  bytes = std::min<size_t>(bytes, 1u << 30);
  return decoder_ ? decoder_->read(out, bytes) : file_->read(out, bytes);
}

bool has_suffix(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

std::string compression_ending(const std::string& name) {
  const Compression* of = compression_of(name);
  return of == nullptr ? "" : of->ending;
}

std::string uncompressed_name(const std::string& name) {
  return name.substr(0, name.size() - compression_ending(name).size());
}

const char* printing_program(const std::string& path) {
  const Compression* of = compression_of(path);
  return of == nullptr ? "cat" : of->program;
}

}  // namespace zrt::runtime::data
