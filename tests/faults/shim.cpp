// Faults on demand, for LD_PRELOAD. Calls that change files below $ZRT_FAULT_PREFIX are counted; call number
// $ZRT_FAULT_AT (from 1) meets the fault. Nothing of zrt is linked here.
//
//   ZRT_FAULT_PREFIX  absolute folder              ZRT_FAULT_MATCH  part of the path; "!part": paths without it
//   ZRT_FAULT_OPS     only these, comma-separated: open write fsync rename truncate unlink mkdir; and read, an open
//   that
//                     changes nothing, which counts only where it is named here
//   ZRT_FAULT_KIND    kill, stop, hang, short or an error: EIO ENOSPC EINTR EINVAL EFBIG; none: count only
//   ZRT_FAULT_AT      number of the call           ZRT_FAULT_STICKY all later calls fail, too
//   ZRT_FAULT_ONCE    a file that the first fault makes; while it exists there is no other, in any process
//   ZRT_FAULT_NO_EXCHANGE  renameat2 fails, as on file systems that cannot exchange two folders
//   ZRT_FAULT_NO_LOCKS  flock fails, as on file systems that know no locks
//   ZRT_FAULT_LOG     every counted call is written here as a line "OP PATH", with " FAULT" where the fault struck
//   ZRT_FAULT_JOURNAL what the calls below the prefix did, in their order, for power_loss.h: "OP<tab>PATH<tab>..." and,
//                     after a write's offset and bytes, what was written
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string setting(const char* name) {
  const char* value = getenv(name);
  return value ? value : "";
}

std::string absolute(int folder, const char* path) {
  if (path && path[0] == '/') return path;
  char base[PATH_MAX] = "";
  if (folder == AT_FDCWD) {
    if (!getcwd(base, sizeof base)) return "";
  } else {
    const std::string link = "/proc/self/fd/" + std::to_string(folder);
    if (readlink(link.c_str(), base, sizeof base - 1) < 0) return "";
  }
  return path && path[0] ? std::string(base) + "/" + path : base;
}

// 0: go on; else the errno to fail with. A short write is -1.
int meet(const char* op, const std::string& path) {
  static const std::string prefix = setting("ZRT_FAULT_PREFIX"), ops = "," + setting("ZRT_FAULT_OPS") + ",";
  static const std::string kind = setting("ZRT_FAULT_KIND"), log = setting("ZRT_FAULT_LOG");
  static const std::string at = setting("ZRT_FAULT_AT");
  static std::string match = setting("ZRT_FAULT_MATCH");
  static const bool without = !match.empty() && match[0] == '!';
  static const std::string part = without ? match.substr(1) : match;
  static std::atomic<long> count{0};
  if (prefix.empty() || path.compare(0, prefix.size(), prefix) != 0) return 0;
  if (ops != ",," && ops.find("," + std::string(op) + ",") == std::string::npos) return 0;
  if (!part.empty() && (path.find(part) != std::string::npos) == without) return 0;
  const long number = ++count, wanted = atol(at.c_str());
  bool strikes = !kind.empty() && (number == wanted || (number > wanted && !setting("ZRT_FAULT_STICKY").empty()));
  if (const std::string once = setting("ZRT_FAULT_ONCE"); strikes && !once.empty()) {
    const long made = syscall(SYS_openat, AT_FDCWD, once.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    strikes = made >= 0;
    if (strikes) syscall(SYS_close, made);
  }
  if (!log.empty()) {
    const std::string line = std::string(op) + " " + path + (strikes ? " FAULT\n" : "\n");
    const int file =
        static_cast<int>(syscall(SYS_openat, AT_FDCWD, log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
    (void)!syscall(SYS_write, file, line.data(), line.size());
    syscall(SYS_close, file);
  }
  if (!strikes) return 0;
  if (kind == "kill") kill(getpid(), SIGKILL);
  if (kind == "stop") kill(getpid(), SIGSTOP);
  while (kind == "hang") pause();
  if (kind == "short") return strcmp(op, "write") == 0 ? -1 : 0;
  const struct {
    const char* name;
    int number;
  } errors[] = {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EINTR", EINTR}, {"EINVAL", EINVAL}, {"EFBIG", EFBIG}};
  for (const auto& error : errors) {
    if (kind == error.name) return error.number;
  }
  return 0;
}

bool journals(const std::string& path) {
  static const std::string prefix = setting("ZRT_FAULT_PREFIX");
  static const bool on = !setting("ZRT_FAULT_JOURNAL").empty();
  return on && path.compare(0, prefix.size(), prefix) == 0;
}

void note(const std::string& line, const void* data = nullptr, size_t bytes = 0) {
  static const std::string journal = setting("ZRT_FAULT_JOURNAL");
  const int file =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, journal.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  std::string record = line + "\n";
  record.append(static_cast<const char*>(data), bytes);
  (void)!syscall(SYS_write, file, record.data(), record.size());
  syscall(SYS_close, file);
}

// Runs `real` unless the fault strikes; `record` then says in the journal what it did. One call at a time where there
// is a journal, so that its order is that of the calls.
template <class Real, class Record>
auto guard(const char* op, const std::string& path, Real real, Record record) -> decltype(real(0)) {
  static std::recursive_mutex turn;
  const int error = meet(op, path);
  if (error > 0) {
    errno = error;
    return -1;
  }
  if (!journals(path)) return real(error);
  const std::lock_guard lock(turn);
  const auto result = real(error);
  const int code = errno;
  if (result >= 0) record(result);
  errno = code;
  return result;
}

template <class Real>
ssize_t guard_write(int file, const void* data, size_t bytes, off_t at, Real real) {
  const std::string path = absolute(file, "");
  return guard(
      "write", path, [&](int shorter) { return real(shorter < 0 && bytes > 1 ? bytes / 2 : bytes); },
      [&](ssize_t done) {
        const off_t from = at >= 0 ? at : lseek(file, 0, SEEK_CUR) - done;
        const auto written = static_cast<size_t>(done);
        note("write\t" + path + "\t" + std::to_string(from) + "\t" + std::to_string(written), data, written);
      });
}

mode_t mode_of(int flags, va_list list) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
}

template <class Real>
int guard_open(int folder, const char* path, int flags, Real real) {
  const std::string file = absolute(folder, path);
  if ((flags & O_ACCMODE) == O_RDONLY) {
    static const bool counts = ("," + setting("ZRT_FAULT_OPS") + ",").find(",read,") != std::string::npos;
    return counts ? guard("read", file, real, [](int) {}) : real(0);
  }
  const bool made = access(file.c_str(), F_OK) != 0;
  return guard("open", file, real, [&](int) {
    if (made) note("create\t" + file);
    if (!made && (flags & O_TRUNC) != 0) note("truncate\t" + file + "\t0");
  });
}

template <class Real>
auto guard_rename(const char* op, const std::string& from, const std::string& to, Real real) {
  return guard("rename", from, real, [&](auto) { note(std::string(op) + "\t" + from + "\t" + to); });
}

template <class Real>
int guard_path(const char* op, const std::string& path, Real real) {
  return guard(op, path, real, [&](int) { note(std::string(op) + "\t" + path); });
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return guard_open(AT_FDCWD, path, flags,
                    [&](int) { return next<int(const char*, int, ...)>("open")(path, flags, mode); });
}
int open64(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return guard_open(folder, path, flags,
                    [&](int) { return next<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode); });
}
ssize_t write(int file, const void* data, size_t bytes) {
  return guard_write(file, data, bytes, -1,
                     [&](size_t n) { return next<ssize_t(int, const void*, size_t)>("write")(file, data, n); });
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t at) {
  return guard_write(file, data, bytes, at, [&](size_t n) {
    return next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(file, data, n, at);
  });
}
ssize_t writev(int file, const iovec* parts, int count) {
  std::string data;
  for (int i = 0; i < count; ++i) data.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return guard_write(file, data.data(), 0, -1,
                     [&](size_t) { return next<ssize_t(int, const iovec*, int)>("writev")(file, parts, count); });
}
int fsync(int file) {
  return guard_path("fsync", absolute(file, ""), [&](int) { return next<int(int)>("fsync")(file); });
}
int fdatasync(int file) {
  return guard_path("fsync", absolute(file, ""), [&](int) { return next<int(int)>("fdatasync")(file); });
}
int rename(const char* from, const char* to) {
  return guard_rename("rename", absolute(AT_FDCWD, from), absolute(AT_FDCWD, to),
                      [&](int) { return next<int(const char*, const char*)>("rename")(from, to); });
}
int ftruncate(int file, off_t bytes) {
  const std::string path = absolute(file, "");
  return guard(
      "truncate", path, [&](int) { return next<int(int, off_t)>("ftruncate")(file, bytes); },
      [&](int) { note("truncate\t" + path + "\t" + std::to_string(bytes)); });
}
int unlink(const char* path) {
  return guard_path("unlink", absolute(AT_FDCWD, path), [&](int) { return next<int(const char*)>("unlink")(path); });
}
int unlinkat(int folder, const char* path, int flags) {
  return guard_path("unlink", absolute(folder, path),
                    [&](int) { return next<int(int, const char*, int)>("unlinkat")(folder, path, flags); });
}
int remove(const char* path) {
  return guard_path("unlink", absolute(AT_FDCWD, path), [&](int) { return next<int(const char*)>("remove")(path); });
}
int mkdir(const char* path, mode_t mode) {
  return guard_path("mkdir", absolute(AT_FDCWD, path),
                    [&](int) { return next<int(const char*, mode_t)>("mkdir")(path, mode); });
}
int flock(int file, int operation) {
  if (setting("ZRT_FAULT_NO_LOCKS").empty()) return next<int(int, int)>("flock")(file, operation);
  errno = ENOLCK;
  return -1;
}
// renameat2 has no wrapper in older libraries, so programs call it by number.
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& value : a) value = va_arg(list, long);
  va_end(list);
  const auto real = [&](int) { return next<long(long, ...)>("syscall")(number, a[0], a[1], a[2], a[3], a[4], a[5]); };
  if (number != SYS_renameat2) return real(0);
  if (!setting("ZRT_FAULT_NO_EXCHANGE").empty()) {
    errno = EINVAL;
    return -1;
  }
  const auto path = [&](int folder, int name) {
    return absolute(static_cast<int>(a[folder]), reinterpret_cast<const char*>(a[name]));
  };
  return guard_rename("exchange", path(0, 1), path(2, 3), real);
}

}  // extern "C"
