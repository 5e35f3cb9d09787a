#include "comm/process/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <string>

#include "core/error.h"

namespace zrt::comm {
namespace {

std::byte* map(int file, uint64_t bytes, bool writable, const std::string& what) {
  void* mapping = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
  if (mapping == MAP_FAILED) {
    throw core::CommError(fmt::format("{} of {} bytes cannot be mapped: {}", what, bytes, std::strerror(errno)));
  }
  return static_cast<std::byte*>(mapping);
}

}  // namespace

int make_memory_file(const char* name) {
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file < 0) throw core::CommError(fmt::format("memfd_create(\"{}\") failed: {}", name, std::strerror(errno)));
  return file;
}

SharedMemory::SharedMemory(const char* name, uint64_t bytes) : bytes_(bytes), file_(make_memory_file(name)) {
  if (ftruncate(file_, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    close(file_);
    throw core::CommError(fmt::format("shared memory of {} bytes cannot be made: {}", bytes, std::strerror(error)));
  }
  try {
    data_ = map(file_, bytes, true, "shared memory");
  } catch (...) {
    close(file_);
    throw;
  }
}

SharedMemory::SharedMemory(int pid, int file, uint64_t bytes, bool writable) : bytes_(bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, file);
  const int opened = open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (opened < 0) {
    throw core::CommError(
        fmt::format("the memory of process {} cannot be opened ({}): {}. Ranks of one machine must run as one user and "
                    "see each other's processes; otherwise give each its own ZRT_HOST_GROUP, so that they exchange "
                    "data through MPI",
                    pid, path, std::strerror(errno)));
  }
  try {
    data_ = map(opened, bytes, writable, path);
  } catch (...) {
    close(opened);
    throw;
  }
  close(opened);
}

SharedMemory::~SharedMemory() {
  munmap(data_, bytes_);
  if (file_ >= 0) close(file_);
}

void wait_on(uint32_t* word, uint32_t seen, int64_t nanoseconds) {
  const timespec limit{nanoseconds / 1000000000, nanoseconds % 1000000000};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void wake(uint32_t* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace zrt::comm
