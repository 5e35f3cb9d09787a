#include "core/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/file.h"

namespace zrt::core {
namespace {

namespace fs = std::filesystem;

constexpr const char* lock_name = "lock";

// "process 4711 on node7 since 2026-11-26 12:41:17 UTC"
std::string own_name() {
  char host[256] = "", moment[64] = "";
  gethostname(host, sizeof host - 1);
  const time_t now = time(nullptr);
  struct tm parts {};
  strftime(moment, sizeof moment, "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&now, &parts));
  return fmt::format("process {} on {} since {}", getpid(), host, moment);
}

// Reads the line that the holder wrote, without control characters; "" before it has written.
std::string read_name(int descriptor) {
  char text[400];
  const ssize_t count = pread(descriptor, text, sizeof text, 0);
  std::string name(text, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  name = name.substr(0, name.find('\n'));
  std::erase_if(name, [](unsigned char c) { return c < ' ' || c == 127; });
  return name;
}

std::vector<fs::path> missing_folders(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path at = fs::absolute(folder, error); !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
    if (at.has_filename()) missing.insert(missing.begin(), at);
  }
  return missing;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder)
    : folder_(folder), file_(folder / lock_name), made_(missing_folders(folder)) {
  make_folder(folder);
  place_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  try {
    take();
  } catch (...) {
    ::close(place_);
    throw;
  }
  const std::string name = own_name() + "\n";
  // A name that cannot be written, on a full disk for example, is missing from a message and nowhere else.
  [[maybe_unused]] const bool named =
      ftruncate(descriptor_, 0) == 0 && pwrite(descriptor_, name.data(), name.size(), 0) > 0;
}

void FolderLock::take() {
  for (;;) {
    descriptor_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (descriptor_ < 0) {
      throw DataError(fmt::format("{}: cannot be opened: {}; a run writes into its folder and locks it by this file",
                                  file_.string(), std::strerror(errno)));
    }
    int result;
    while ((result = ::flock(descriptor_, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {
    }
    if (result != 0 && errno == EWOULDBLOCK) {
      const std::string name = read_name(descriptor_);
      ::close(std::exchange(descriptor_, -1));
      throw ConfigError(fmt::format(
          "{}: this folder is in use by {}; wait for its end, stop it, or choose another folder. Two runs in "
          "one folder would mix their files",
          folder_.string(), name.empty() ? "another process" : name));
    }
    held_ = result == 0;
    // The last holder may have removed the file between the two calls above; then nobody else would meet this lock.
    if (!held_ || names_open(file_, descriptor_)) return;
    ::close(std::exchange(descriptor_, -1));
  }
}

// Others may have renamed the folder meanwhile and made one of that name: nothing of theirs is touched.
FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  const bool here = names_open(folder_, place_);
  if (held_) ::unlinkat(place_, lock_name, 0);  // nobody else's
  ::close(descriptor_);
  ::close(place_);
  if (!here) return;
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) ::rmdir(folder->c_str());  // if it is empty
}

}  // namespace zrt::core
