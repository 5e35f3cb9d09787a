// The ranks of a group and the hosts that they lie on.
#pragma once
#include <cstdint>

#include "core/mesh.h"

namespace zrt::core {

// Ranks lie one after another on a host until it is full (Slurm's distribution "block"), or on the hosts in turns
// ("cyclic").
enum class Distribution : uint8_t { block, cyclic };

struct HostSpread {
  int ranks = 1;      // of the group
  int hosts = 1;      // that it spans
  int local = 1;      // ranks of it on a full host
  int fewest = 1;     // ranks of it on the host that has fewest
  int groups = 1;     // groups like it on each host at the same time
  bool even = false;  // equally many on each host, of which one after another is filled
};
HostSpread host_spread(const RankGroups& group, int world, int ranks_per_host,
                       Distribution distribution = Distribution::block);

}  // namespace zrt::core
