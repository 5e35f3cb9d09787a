// One direction of the link between device and host memory. On a machine without a GPU both tiers are host memory, and
// the link can be slowed down to a speed worth studying (memory.link_bytes_per_second).
#pragma once
#include <cstdint>

namespace zrt::offload {

class PacedLink {
 public:
  explicit PacedLink(double bytes_per_second = 0) : bytes_per_second_(bytes_per_second) {}  // 0: as fast as memory is

  // At core::place(); on a GPU queued on its stream, and not slowed down. One thread at a time. A link that is used
  // without a break moves bytes_per_second: what a copy oversleeps, the next one makes good.
  void copy(void* to, const void* from, uint64_t bytes);
  uint64_t bytes() const { return bytes_; }  // since the start

 private:
  double bytes_per_second_;
  double free_at_ = 0;  // of the steady clock: when the link is done with all so far
  uint64_t bytes_ = 0;
};

}  // namespace zrt::offload
