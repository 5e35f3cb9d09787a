#include "offload/scratch_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
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
  claim();
  try {
    open_direct(warn);
    take_space(warn);
  } catch (...) {
    remove();
    throw;
  }
}

ScratchFile::~ScratchFile() {
  remove();
}

void ScratchFile::fail(const std::string& what) const {
  throw core::DataError(fmt::format("{}: {}", path_.string(), what));
}

// The lock lives as long as the process, so it tells a live owner from a dead one. Between the making of a file and its
// lock another process may take it for a leftover; then both begin again.
void ScratchFile::claim() {
  for (int turn = 0; turn < 100; ++turn) {
    descriptor_ = uninterrupted(
        [&] { return ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR); });
    if (descriptor_ < 0 && errno == EEXIST && replace_leftover()) continue;
    if (descriptor_ < 0) fail(fmt::format("cannot be created: {}", std::strerror(errno)));
    struct stat status {};
    if (::fstat(descriptor_, &status) == 0) device_ = status.st_dev, inode_ = status.st_ino;
    const int error = uninterrupted([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0 ? 0 : errno;
    if (error == 0 && has_its_name()) return;
    if (error != 0 && error != EWOULDBLOCK) {
      remove();
      fail(fmt::format("cannot be locked: {}; choose a folder on a local disk", std::strerror(error)));
    }
    ::close(std::exchange(descriptor_, -1));
  }
  fail("several runs take this file from each other; give each a folder of its own");
}

// Removes a file that no process holds; throws when one does. True: try again.
bool ScratchFile::replace_leftover() {
  const int old = uninterrupted([&] { return ::open(path_.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); });
  if (old < 0 && errno == ENOENT) return true;  // its owner has just removed it
  if (old < 0) fail(fmt::format("is in the way and cannot be opened: {}; remove it", std::strerror(errno)));
  struct stat status {
  }, named{};
  const bool regular = ::fstat(old, &status) == 0 && S_ISREG(status.st_mode);
  const int error = !regular ? EINVAL : uninterrupted([&] { return ::flock(old, LOCK_EX | LOCK_NB); }) == 0 ? 0 : errno;
  // The name may mean the file of a third process by now; whoever holds the lock of the named file may remove it.
  if (error == 0 && ::lstat(path_.c_str(), &named) == 0 && named.st_ino == status.st_ino &&
      named.st_dev == status.st_dev) {
    ::unlink(path_.c_str());
  }
  ::close(old);
  if (!regular) fail("is in the way and is not a regular file; remove it");
  if (error == EWOULDBLOCK) {
    fail("another run that is still alive keeps its states in this file; give each run a folder of its own, or wait");
  }
  if (error != 0) fail(fmt::format("is in the way and cannot be locked: {}; remove it", std::strerror(error)));
  return true;
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
  if (status.st_nlink == 0) fail("was deleted while this run kept states in it; resume from a checkpoint");
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size < bytes_) {
    fail(fmt::format("was truncated: it ends at byte {}, and this run had taken {}; resume from a checkpoint", size,
                     in_bytes(bytes_)));
  }
}

bool ScratchFile::has_its_name() const {
  struct stat named {};
  return ::lstat(path_.c_str(), &named) == 0 && named.st_ino == inode_ && named.st_dev == device_;
}

void ScratchFile::remove() {
  if (descriptor_ < 0) return;
  if (has_its_name()) ::unlink(path_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace zrt::offload
