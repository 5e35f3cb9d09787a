// The size of the GPU memory in which a group that NCCL connects keeps what its ranks contribute to sums until they are
// added in the order of ranks.
#pragma once
#include <algorithm>
#include <cstdint>

namespace zrt::comm {

// Bytes on the GPU of each of the `ranks` of a group: 1 MiB for each other rank, and of groups of more than 65 ranks
// 64 MiB in all, of which each other rank has an equal part of whole 16 bytes. A sum by an all-to-all takes as many
// rounds as its largest contribution has of such parts; one along a line of hosts cuts the staging anew (host_line.h).
constexpr uint64_t nccl_staging_bytes(int ranks) {
  constexpr uint64_t each = uint64_t{1} << 20, most = uint64_t{64} << 20, unit = 16;
  const auto others = static_cast<uint64_t>(std::max(ranks, 1) - 1);
  return others == 0 ? 0 : others * std::min(each, most / others / unit * unit);
}

}  // namespace zrt::comm
