#include "core/host_spread.h"

#include <algorithm>
#include <numeric>

namespace zrt::core {
namespace {

// Rank r is on host r modulo hosts.
HostSpread in_turns(const RankGroups& group, int world, int hosts) {
  const int size = group.size;
  const int spanned = std::min(size, hosts / std::gcd(group.stride, hosts)), local = (size + spanned - 1) / spanned;
  return {size, spanned, local, size / spanned, std::max(1, (world + hosts - 1) / hosts * spanned / size)};
}

HostSpread in_blocks(const RankGroups& group, int world, int hosts, int ranks_per_host) {
  const int size = group.size;
  if (size == world) return {world, hosts, ranks_per_host, world - (hosts - 1) * ranks_per_host, 1};
  if (group.stride == 1) {
    const bool aligned = size <= ranks_per_host ? ranks_per_host % size == 0 : size % ranks_per_host == 0;
    const int spanned = (size + ranks_per_host - 1) / ranks_per_host + (aligned ? 0 : 1);
    const int local = std::min((size + spanned - 1) / spanned, ranks_per_host);
    return {size, spanned, local, size - (spanned - 1) * local, std::max(1, ranks_per_host / size)};
  }
  const int local = std::max(1, ranks_per_host / group.stride);
  const int spanned = (size + local - 1) / local;
  return {size, spanned, local, size - (spanned - 1) * local, std::min(group.stride, ranks_per_host)};
}

}  // namespace

HostSpread host_spread(const RankGroups& group, int world, int ranks_per_host, Distribution distribution) {
  const int hosts = (world + ranks_per_host - 1) / ranks_per_host, size = group.size;
  if (hosts > 1 && distribution == Distribution::cyclic) return in_turns(group, world, hosts);
  HostSpread at = hosts == 1 ? HostSpread{size, 1, size, size, 1} : in_blocks(group, world, hosts, ranks_per_host);
  if (distribution == Distribution::cyclic) return at;
  at.even = group.stride == 1 ? size % ranks_per_host == 0 : ranks_per_host % group.stride == 0 && size % at.local == 0;
  return at;
}

}  // namespace zrt::core
