// A seat describes a rank of a group that NCCL connects.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace zrt::comm {

struct NcclSeat {
  std::string group;  // "dp", …
  int rank = 0;
  std::vector<bool> elsewhere;  // by rank of the group: true for those on other hosts
  // Memory of the rank's GPU for contributions to sums, at least 16 bytes for each other rank: what does not fit is
  // summed in rounds. It must outlive the group; one rank needs none.
  std::byte* staging = nullptr;
  uint64_t staging_bytes = 0;
  std::chrono::milliseconds timeout{120000};
};

// For a clock that cannot reach the end of what stands for "never".
inline std::chrono::milliseconds most_wait(std::chrono::milliseconds timeout) {
  return std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
}

}  // namespace zrt::comm
