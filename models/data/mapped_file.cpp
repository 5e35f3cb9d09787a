#include "models/data/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace zrt::models::data {

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe by mistake must not hang.
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) throw core::DataError(fmt::format("{}: cannot open it: {}.", path_, std::strerror(errno)));
  struct stat status {};
  const int failed = ::fstat(file, &status) != 0 ? errno : 0;
  if (failed != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    throw core::DataError(
        fmt::format("{}: {}.", path_, failed != 0 ? std::strerror(failed) : "it is not a regular file"));
  }
  size_ = static_cast<size_t>(status.st_size);
  void* address = size_ > 0 ? ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0) : nullptr;
  const int map_error = errno;
  ::close(file);
  if (address == MAP_FAILED)
    throw core::DataError(fmt::format("{}: cannot map its {} bytes: {}.", path_, size_, std::strerror(map_error)));
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace zrt::models::data
