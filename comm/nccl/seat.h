// A seat describes a rank of a group that NCCL connects.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/nccl/neighbours.h"

namespace zrt::comm {

struct NcclSeat {
  std::string group;  // "dp", …
  int rank = 0;
  std::vector<int> hosts;  // by rank of the group: its host, a number that ranks of one host share
  // Memory of the rank's GPU for contributions to sums, at least 16 bytes for each other rank: what does not fit is
  // summed in rounds. It must outlive the group; one rank needs none.
  std::byte* staging = nullptr;
  uint64_t staging_bytes = 0;
  std::chrono::milliseconds timeout{120000};
  std::optional<bool> by_line{};  // whether sums go along a line of hosts (host_line.h); none: where that pays
  bool fast_sums = false;         // NCCL orders and rounds sums
  Neighbours neighbours{};

  int size() const { return static_cast<int>(hosts.size()); }
  bool elsewhere(int other) const { return hosts[static_cast<size_t>(other)] != hosts[static_cast<size_t>(rank)]; }
};

// Cuts a time-out that stands for "never": a clock cannot reach its end.
inline std::chrono::milliseconds most_wait(std::chrono::milliseconds timeout) {
  return std::min<std::chrono::milliseconds>(timeout, std::chrono::hours(24 * 365));
}

}  // namespace zrt::comm
