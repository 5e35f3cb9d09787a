#include "offload/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/ledger.h"
#include "offload/io_reason.h"

namespace zrt::offload {
namespace {

// A call that a signal interrupted before it did anything is made again.
template <class Call>
int uninterrupted(Call call) {
  int result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

std::string in_bytes(uint64_t bytes) {
  return fmt::format("{} bytes ({})", bytes, core::format_bytes(bytes));
}

}  // namespace

ScratchFile::ScratchFile(std::filesystem::path path, uint64_t bytes, const Warn& warn)
    : path_(std::move(path)), bytes_(bytes) {
  open_nameless();
  try {
    open_direct(warn);
    take_space(warn);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

ScratchFile::~ScratchFile() {
  ::close(descriptor_);
}

void ScratchFile::fail(const std::string& what) const {
  throw core::DataError(fmt::format("{}: {}", path_.string(), what));
}

// The name is gone before the file has any space, so that nothing is left however the process ends.
void ScratchFile::open_nameless() {
  std::string name;
  descriptor_ = uninterrupted([&] {
    name = path_.string() + ".XXXXXX";
    return ::mkostemp(name.data(), O_CLOEXEC);
  });
  if (descriptor_ < 0) fail(fmt::format("cannot be created: {}", std::strerror(errno)));
  struct stat status {};
  const bool known = ::unlink(name.c_str()) == 0 && ::fstat(descriptor_, &status) == 0;
  if (!known) {
    const int error = errno;
    ::close(descriptor_);
    fail(fmt::format("its name cannot be removed: {}", std::strerror(error)));
  }
  device_ = status.st_dev, inode_ = status.st_ino;
}

void ScratchFile::open_direct(const Warn& warn) {
  const int flags = ::fcntl(descriptor_, F_GETFL);
  if (flags >= 0 && ::fcntl(descriptor_, F_SETFL, flags | O_DIRECT) == 0) return;
  warn(
      fmt::format("{}: this file system has no direct I/O ({}); states there go through the page cache, which costs "
                  "memory and time",
                  path_.string(), std::strerror(errno)));
}

void ScratchFile::take_space(const Warn& warn) {
  if (bytes_ == 0) return;
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  constexpr const char* advice = "make room, choose a folder on a larger disk, or leave more states in memory";
  const uint64_t free = core::free_bytes(folder);
  if (free < bytes_) {
    throw core::DataError(fmt::format("{}: {} needs {}, but {} are free; {}", folder.string(),
                                      path_.filename().string(), in_bytes(bytes_), in_bytes(free), advice));
  }
  const auto size = static_cast<off_t>(bytes_);
  if (uninterrupted([&] { return ::fallocate(descriptor_, 0, 0, size); }) == 0) return;
  if (errno == EOPNOTSUPP) {
    warn(fmt::format("{}: this file system cannot set space aside; if others fill it, a write will fail in mid-run",
                     path_.string()));
    space_taken_ = false;
    if (uninterrupted([&] { return ::ftruncate(descriptor_, size); }) == 0) return;
  }
  const int error = errno;
  const bool room = error == ENOSPC || error == EDQUOT;
  fail(fmt::format("{} cannot be taken: {}; {} are free in {}; {}", in_bytes(bytes_),
                   room ? std::strerror(error) : io_reason(error), in_bytes(core::free_bytes(folder)), folder.string(),
                   advice));
}

void ScratchFile::check() const {
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known && errno != EBADF) fail(fmt::format("cannot be examined: {}", io_reason(errno)));
  if (!known || status.st_ino != inode_ || status.st_dev != device_) fail(io_reason(EBADF));
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size < bytes_) {
    fail(fmt::format("was truncated: it ends at byte {}, and this run had taken {}; resume from a checkpoint", size,
                     in_bytes(bytes_)));
  }
}

}  // namespace zrt::offload
