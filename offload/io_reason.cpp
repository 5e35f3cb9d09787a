#include "offload/io_reason.h"

#include <cerrno>
#include <cstring>

namespace zrt::offload {
namespace {

const char* hint(int error) {
  switch (error) {
    case EIO:
      return "; the disk or the way to it failed, the kernel's log (dmesg) says more";
    case ENOSPC:
    case EDQUOT:
      return "; its space had been taken, so something else took it from the file or filled a disk that hands out more "
             "than it has";
    case EFBIG:
      return "; a limit on the size of files is lower than the file (ulimit -f)";
    case EROFS:
      return "; the file system has become read-only, often after errors of its disk: see the kernel's log (dmesg)";
    case EBADF:
      return "; something else in this process closed its descriptor";
    case EINVAL:
      return "; the disk may want transfers aligned to more than 4096 bytes: choose a folder on another file system";
    case ESTALE:
      return "; the server of this network file system no longer knows the file: choose a local disk";
    default:
      return "";
  }
}

}  // namespace

std::string io_reason(int error) {
  return std::string(std::strerror(error)) + hint(error);
}

}  // namespace zrt::offload
