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
  const std::vector<int> all = all_ended();
  return all.empty() ? -1 : all.front();
}

std::vector<int> PeerWatch::all_ended() const {
  std::vector<pollfd> list;
  list.reserve(files_.size());
  for (int file : files_) list.push_back({file, POLLIN, 0});  // poll ignores negative files
  std::vector<int> ranks;
  if (poll(list.data(), list.size(), 0) <= 0) return ranks;
  for (size_t rank = 0; rank < list.size(); ++rank) {
    if (list[rank].revents != 0) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace zrt::comm
