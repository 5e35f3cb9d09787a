#include "runtime/train/telemetry/append_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace zrt::runtime {

AppendFile::AppendFile(std::filesystem::path file, int64_t written) : file_(std::move(file)), written_(written) {
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw core::DataError(fmt::format("{}: cannot be opened: {}", file_.string(), std::strerror(errno)));
  }
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendFile::add(const std::string& record) {
  kept_ += record;
  ssize_t done = 0;
  do {
    done = ::write(descriptor_, kept_.data(), kept_.size());
  } while (done < 0 && errno == EINTR);
  if (done == static_cast<ssize_t>(kept_.size())) {
    written_ += done;
    kept_.clear();
    struct stat status {};
    const bool removed = ::fstat(descriptor_, &status) == 0 && status.st_nlink == 0;
    error_ = removed ? fmt::format("{}: was removed, so its records are lost", file_.string()) : "";
    return;
  }
  error_ = fmt::format("{}: cannot be written: {}", file_.string(), std::strerror(done < 0 ? errno : ENOSPC));
  if (::ftruncate(descriptor_, written_) != 0) error_ += fmt::format("; half a record stays: {}", std::strerror(errno));
}

}  // namespace zrt::runtime
