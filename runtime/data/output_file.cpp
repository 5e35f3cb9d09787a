#include "runtime/data/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/error.h"

namespace zrt::runtime::data {

namespace {
constexpr size_t buffer_bytes = size_t{1} << 20;
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), partial_(path_ + ".partial") {
  buffer_.reserve(buffer_bytes);
  // The lock comes before the truncation: a second writer must not empty the file of the first.
  file_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) fail("cannot create it");
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    ::close(file_);
    file_ = -1;
    throw core::DataError(
        fmt::format("{}: another process is writing this file. Wait for it, or choose another name.", partial_));
  }
  // The previous writer may have renamed the file between our open and our lock; we would then hold its result.
  struct stat held {
  }, named{};
  if (::fstat(file_, &held) != 0 || ::stat(partial_.c_str(), &named) != 0 || held.st_ino != named.st_ino) {
    ::close(file_);
    file_ = -1;
    throw core::DataError(fmt::format("{}: another process has just replaced this file. Try again.", path_));
  }
  if (::ftruncate(file_, 0) != 0) fail("cannot empty it");
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  ::unlink(partial_.c_str());
  ::close(file_);
}

void OutputFile::fail(const char* what) const {
  throw core::DataError(fmt::format("{}: {}: {}.", partial_, what, std::strerror(errno)));
}

void OutputFile::write(const void* data, size_t bytes) {
  const auto* source = static_cast<const std::byte*>(data);
  buffer_.insert(buffer_.end(), source, source + bytes);
  if (buffer_.size() >= buffer_bytes) flush();
}

void OutputFile::flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(file_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno != EINTR) fail("cannot write it");
    if (count > 0) done += static_cast<size_t>(count);
  }
  buffer_.clear();
}

void OutputFile::seal() {
  if (sealed_) return;
  flush();
  if (::fsync(file_) != 0) fail("cannot bring it to disk");
  sealed_ = true;
}

void OutputFile::publish() {
  seal();
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail("cannot rename it");
  ::close(file_);
  file_ = -1;
}

void sync_folder_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const int folder = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // a folder that may be written but not read cannot be synced; its files are
  ::fsync(folder);
  ::close(folder);
}

}  // namespace zrt::runtime::data
