// Tells when another process of this machine has ended.
#pragma once
#include <span>
#include <vector>

namespace zrt::comm {

class PeerWatch {
 public:
  PeerWatch() = default;
  // `pids` by rank; 0 and the own process are not watched.
  explicit PeerWatch(std::span<const int> pids);
  ~PeerWatch();
  PeerWatch(PeerWatch&& other) noexcept { files_.swap(other.files_); }
  PeerWatch& operator=(PeerWatch&& other) noexcept;

  int ended() const;                   // a rank whose process has ended, or -1
  std::vector<int> all_ended() const;  // in order

 private:
  std::vector<int> files_;  // pidfds, -1 for ranks that are not watched
};

}  // namespace zrt::comm
