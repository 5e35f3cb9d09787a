#include "core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/ledger.h"
#include "core/lfs_pointer.h"

namespace zrt::core {
namespace {

[[noreturn]] void fail_at(const std::filesystem::path& path, const char* what, int error) {
  std::string text = fmt::format("{}: {}: {}", path.string(), what, std::strerror(error));
  struct statvfs space {};
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const bool no_room = error == ENOSPC || error == EDQUOT || error == EFBIG;
  if (no_room && statvfs(folder.c_str(), &space) == 0) {
    const uint64_t free = uint64_t{space.f_bavail} * space.f_frsize;
    text += fmt::format("; {} bytes ({}) are free there", free, format_bytes(free));
    if (error == EFBIG) text += ", but the limit for one file is lower (ulimit -f)";
  }
  throw DataError(text);
}

// A call that a signal interrupted before it did anything is made again.
template <class Call>
int uninterrupted(Call call) {
  int result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

NewFile::NewFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = uninterrupted([&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); });
  if (descriptor_ < 0) fail("cannot be created");
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(path_.c_str());
}

void NewFile::fail(const char* what) const {
  fail_at(path_, what, errno);
}

void NewFile::write(const void* data, uint64_t bytes) {
  hash_.update(data, bytes);
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(descriptor_, at, std::min<uint64_t>(bytes, 1u << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    at += done;
    bytes -= static_cast<uint64_t>(done);
    bytes_ += static_cast<uint64_t>(done);
  }
}

void NewFile::keep() {
  if (uninterrupted([&] { return ::fsync(descriptor_); }) != 0) fail("cannot be brought to disk");
  // Some file systems report a failed write only here.
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    const int error = errno;
    ::unlink(path_.c_str());
    fail_at(path_, "cannot be closed", error);
  }
}

InputFile::InputFile(std::filesystem::path path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe by mistake must not hang.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail_at(path_, "cannot be opened", errno);
  struct stat status {};
  const int error = ::fstat(descriptor_, &status) != 0 ? errno : !S_ISREG(status.st_mode) ? EINVAL : 0;
  if (error != 0) {
    ::close(descriptor_);
    fail_at(path_, S_ISREG(status.st_mode) ? "cannot be examined" : "is not a regular file", error);
  }
  bytes_ = static_cast<uint64_t>(status.st_size);
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(other.bytes_), descriptor_(std::exchange(other.descriptor_, -1)) {}

void InputFile::read(uint64_t offset, void* target, uint64_t count) const {
  char* at = static_cast<char*>(target);
  while (count > 0) {
    const ssize_t done = ::pread(descriptor_, at, std::min<uint64_t>(count, 1u << 30), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_at(path_, "cannot be read", errno);
    if (done == 0) {
      struct stat now {};
      const bool known = ::fstat(descriptor_, &now) == 0;
      throw DataError(
          fmt::format("{}: ends at byte {}, before byte {} that must be read; it had {} bytes when it was "
                      "opened",
                      path_.string(), known ? static_cast<uint64_t>(now.st_size) : offset, offset, bytes_));
    }
    at += done;
    offset += static_cast<uint64_t>(done);
    count -= static_cast<uint64_t>(done);
  }
}

std::string InputFile::xxh3() const {
  Hash hash;
  std::vector<char> piece(std::min<uint64_t>(bytes_, 4u << 20));
  for (uint64_t at = 0; at < bytes_; at += piece.size()) {
    const uint64_t count = std::min<uint64_t>(piece.size(), bytes_ - at);
    read(at, piece.data(), count);
    hash.update(piece.data(), count);
  }
  return hash.hex();
}

std::string InputFile::sampled_xxh3() const {
  constexpr uint64_t blocks = 256, block = 64u << 10;
  if (bytes_ <= blocks * block) return xxh3();
  Hash hash;
  hash.update(&bytes_, sizeof bytes_);
  std::vector<char> piece(block);
  const uint64_t last = bytes_ - block, step = last / (blocks - 1), rest = last % (blocks - 1);
  for (uint64_t i = 0; i < blocks; ++i) {
    read(i * step + i * rest / (blocks - 1), piece.data(), block);
    hash.update(piece.data(), block);
  }
  return hash.hex();
}

bool names_open(const std::filesystem::path& path, int descriptor) {
  struct stat open {
  }, named{};
  return ::fstat(descriptor, &open) == 0 && ::stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

void make_folder(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> made;  // the outermost last
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  for (auto at = whole; !at.empty() && !std::filesystem::exists(at, error); at = at.parent_path()) made.push_back(at);
  std::filesystem::create_directories(path, error);
  if (error) throw DataError(fmt::format("{}: the folder cannot be made: {}", path.string(), error.message()));
  for (; !made.empty(); made.pop_back()) sync_folder(made.back().parent_path());
}

void sync_folder(const std::filesystem::path& path) {
  const int folder = ::open(path.empty() ? "." : path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail_at(path, "cannot be opened", errno);
  const int error = uninterrupted([&] { return ::fsync(folder); }) != 0 ? errno : 0;
  ::close(folder);
  if (error != 0) fail_at(path, "cannot be brought to disk", error);
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return;
  fail_at(to, fmt::format("cannot be renamed from {}", from.string()).c_str(), errno);
}

void write_durably(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path temporary = path.string() + ".tmp";
  ::unlink(temporary.c_str());  // of a writer that died
  NewFile file(temporary);
  file.write(text.data(), text.size());
  file.keep();
  try {
    rename_path(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(path.parent_path());
}

uint64_t free_bytes(const std::filesystem::path& path) {
  struct statvfs space {};
  if (statvfs(path.c_str(), &space) != 0) fail_at(path, "its free space cannot be asked for", errno);
  return uint64_t{space.f_bavail} * space.f_frsize;
}

std::string read_bytes(const std::filesystem::path& path, uint64_t most) {
  const InputFile file(path);
  if (file.bytes() > most) {
    throw DataError(fmt::format("{}: has {} bytes where at most {} are legal", path.string(), file.bytes(), most));
  }
  std::string text(file.bytes(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

std::string read_text(const std::filesystem::path& path, uint64_t most) {
  std::string text = read_bytes(path, most);
  if (is_lfs_pointer(text)) throw DataError(fmt::format("{}: {}", path.string(), lfs_pointer_reason));
  return text;
}

}  // namespace zrt::core
