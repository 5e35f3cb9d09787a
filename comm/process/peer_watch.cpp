#include "comm/process/peer_watch.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace zrt::comm {

PeerWatch::PeerWatch(std::span<const int> pids) {
  for (int pid : pids) {
    const bool watched = pid > 0 && pid != getpid();
    files_.push_back(watched ? static_cast<int>(syscall(SYS_pidfd_open, pid, 0)) : -1);
  }
}

PeerWatch::~PeerWatch() {
  for (int file : files_) {
    if (file >= 0) close(file);
  }
}

PeerWatch& PeerWatch::operator=(PeerWatch&& other) noexcept {
  files_.swap(other.files_);
  return *this;
}

int PeerWatch::ended() const {
  std::vector<pollfd> list;
  for (int file : files_) list.push_back({file, POLLIN, 0});  // poll ignores negative files
  if (poll(list.data(), list.size(), 0) <= 0) return -1;
  for (size_t rank = 0; rank < list.size(); ++rank) {
    if (list[rank].revents != 0) return static_cast<int>(rank);
  }
  return -1;
}

}  // namespace zrt::comm
