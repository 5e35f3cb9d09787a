#include "core/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/file.h"

namespace zrt::core {
namespace {

namespace fs = std::filesystem;

constexpr const char *lock_name = "lock", *launch_name = "launch.lock";

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

// The process that has locked an open folder, as the system lists it, for a folder without a name of its holder in it.
std::string find_holder(int folder) {
  struct stat status {};
  if (::fstat(folder, &status) != 0) return "";
  const std::string place =
      fmt::format(" {:02x}:{:02x}:{} ", major(status.st_dev), minor(status.st_dev), status.st_ino);
  std::ifstream locks("/proc/locks");  // "1: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF"
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, way, access;
    pid_t pid = 0;
    if (line.find(place) == std::string::npos || !(words >> number >> kind >> way >> access >> pid)) continue;
    if (kind != "FLOCK" || pid <= 0) continue;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return fmt::format("process {} on {}", pid, host);
  }
  return "";
}

// 0, or why the lock was not got.
int try_lock(int descriptor, int way = LOCK_EX) {
  int result;
  while ((result = ::flock(descriptor, way | LOCK_NB)) != 0 && errno == EINTR) {
  }
  return result == 0 ? 0 : errno;
}

int open_lock_file(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor >= 0) return descriptor;
  throw DataError(fmt::format("{}: cannot be opened: {}; a run writes into its folder and locks it by this file",
                              file.string(), std::strerror(errno)));
}

// A name that cannot be written, on a full disk for example, is missing from a message and nowhere else.
void write_name(int descriptor) {
  const std::string name = own_name() + "\n";
  [[maybe_unused]] const bool named =
      ftruncate(descriptor, 0) == 0 && pwrite(descriptor, name.data(), name.size(), 0) > 0;
}

[[noreturn]] void refuse_folder(const fs::path& folder, const std::string& holder) {
  throw ConfigError(
      fmt::format("{}: this folder is in use by {}; wait for its end, stop it, or choose another folder. Two runs in "
                  "one folder would mix their files",
                  folder.string(), holder.empty() ? "another process" : holder));
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

FolderLock::FolderLock(const fs::path& folder, Entry entry)
    : folder_(folder), file_(folder / lock_name), made_(missing_folders(folder)) {
  make_folder(folder);
  place_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  try {
    if (entry == Entry::own) refuse_launched();  // before a supervisor's run could meet this one
    take();
    if (entry == Entry::own) refuse_launched();
  } catch (...) {
    let_go();
    throw;
  }
  write_name(descriptor_);
}

// A supervisor takes its lock first and looks for a run then, so that one of the two sees the other.
void FolderLock::refuse_launched() const {
  const int launch = ::openat(place_, launch_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (launch < 0) return;
  const bool held = try_lock(launch, LOCK_SH) == EWOULDBLOCK;
  const std::string name = held ? read_name(launch) : "";
  ::close(launch);
  if (held) refuse_folder(folder_, name.empty() ? "zrt launch" : "zrt launch, " + name);
}

void FolderLock::refuse(std::string holder) const {
  if (holder.empty()) holder = find_holder(place_);
  refuse_folder(folder_, holder);
}

// The folder's own lock holds whatever becomes of the file. Where folders cannot be locked, as on NFS, that of the file
// is all there is.
void FolderLock::take() {
  const int failure = try_lock(place_);
  if (failure == EWOULDBLOCK) {
    const int file = ::openat(place_, lock_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const std::string name = file < 0 ? "" : read_name(file);
    if (file >= 0) ::close(file);
    refuse(name);
  }
  for (;;) {
    descriptor_ = open_lock_file(file_);
    const int file_failure = try_lock(descriptor_);
    if (file_failure == EWOULDBLOCK) {
      const std::string name = read_name(descriptor_);
      ::close(std::exchange(descriptor_, -1));
      refuse(name);
    }
    held_ = failure == 0 || file_failure == 0;
    // The last holder may have removed the file between the two calls above; then nobody else would meet this lock.
    if (file_failure != 0 || names_open(file_, descriptor_)) return;
    ::close(std::exchange(descriptor_, -1));
  }
}

std::string_view FolderLock::file_name() {
  return lock_name;
}

FolderLock::~FolderLock() {
  let_go();
}

// Others may have renamed the folder meanwhile and made one of that name: nothing of theirs is touched.
void FolderLock::let_go() {
  if (descriptor_ < 0) {
    ::close(place_);
    return;
  }
  const bool here = names_open(folder_, place_);
  if (held_) ::unlinkat(place_, lock_name, 0);  // nobody else's
  ::close(descriptor_);
  ::close(place_);
  if (!here) return;
  for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) ::rmdir(folder->c_str());  // if it is empty
}

LaunchLock::LaunchLock(const fs::path& folder) : file_(folder / launch_name) {
  make_folder(folder);
  for (;;) {
    descriptor_ = open_lock_file(file_);
    if (try_lock(descriptor_) == EWOULDBLOCK) {
      const std::string name = read_name(descriptor_);
      ::close(descriptor_);
      refuse_folder(folder, name.empty() ? "zrt launch" : "zrt launch, " + name);
    }
    if (names_open(file_, descriptor_)) break;  // else the last holder has removed it meanwhile
    ::close(descriptor_);
  }
  write_name(descriptor_);
  try {
    const FolderLock free(folder, Entry::launched);
  } catch (...) {
    let_go();
    throw;
  }
}

LaunchLock::~LaunchLock() {
  let_go();
}

void LaunchLock::let_go() {
  if (names_open(file_, descriptor_)) ::unlink(file_.c_str());  // nobody else's
  ::close(descriptor_);
}

}  // namespace zrt::core
