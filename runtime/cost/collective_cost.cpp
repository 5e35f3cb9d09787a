#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "comm/nccl/host_line.h"
#include "comm/nccl/staging.h"
#include "core/error.h"
#include "runtime/cost/cost.h"

namespace zrt::runtime {

HostSpread host_spread(const Group& group, int world, int ranks_per_host, Distribution distribution) {
  const int hosts = (world + ranks_per_host - 1) / ranks_per_host;
  const int size = group.size;
  if (hosts == 1) return {size, 1, size, size, 1};
  if (distribution == Distribution::cyclic) {
    // Rank r is on host r modulo hosts.
    const int spanned = std::min(size, hosts / std::gcd(group.stride, hosts)), local = (size + spanned - 1) / spanned;
    return {size, spanned, local, size / spanned, std::max(1, (world + hosts - 1) / hosts * spanned / size)};
  }
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

Way way_of(const HostSpread& at, const Cluster& cluster) {
  if (at.hosts == 1) return Way::memory;
  return cluster.exchange == Exchange::once_per_host ? Way::nccl : Way::messages;
}

namespace {

// Sums that go along a line of hosts, as comm/nccl/host_line.h tells.
struct LineCost {
  double ticks = 0;                // exchanges, one behind the other
  double inside = 0, between = 0;  // bytes that a rank receives from its own host, and from others
};

// None where the ranks' sums take an all-to-all.
std::optional<LineCost> line_cost(const HostSpread& at, const Volume& volume, const Layout& layout,
                                  const Cluster& cluster) {
  if (way_of(at, cluster) != Way::nccl || at.local < 2 || at.local != at.fewest) return std::nullopt;
  if (cluster.distribution != Distribution::block) return std::nullopt;
  const comm::HostLine line{at.hosts, at.local};
  const size_t size = core::dtype_size(layout.local_grad);
  const auto elements = static_cast<uint64_t>(volume.bytes / static_cast<double>(size));
  const uint64_t part = comm::part_bytes(line, comm::nccl_staging_bytes(at.ranks), size);
  if (part == 0 || !line.pays(elements, layout.local_grad, layout.grad)) return std::nullopt;
  const double share = volume.bytes / at.ranks, rounds = at.hosts * std::ceil(share / static_cast<double>(part));
  const double filling = (rounds + at.hosts) / rounds;  // first and last ticks have work for some of the hosts alone
  return LineCost{rounds + at.hosts, filling * share * at.hosts * (at.local - 1),
                  filling * static_cast<double>(line.bytes(elements, layout.grad))};
}

}  // namespace

OpCost collective_cost(const Op& op, const Group& group, const Volume& volume, const Layout& layout,
                       const Cluster& cluster) {
  const HostSpread at = host_spread(group, layout.world(), cluster.ranks_per_host, cluster.distribution);
  const double share = volume.bytes / at.ranks;  // of one rank
  OpCost cost{cluster.op_seconds, at.hosts > 1 ? Resource::between_hosts : Resource::inside_host};
  if (volume.sums) {
    cost.seconds += volume.bytes / cluster.rates(layout.local_grad).sum_bytes_per_second;
  } else if (volume.copies) {
    cost.seconds += 2 * share / cluster.memory_bytes_per_second;
  }
  if (at.ranks == 1) return cost;

  const bool ring = way_of(at, cluster) == Way::nccl && !volume.sums;
  const double hops_inside = ring ? at.ranks - at.hosts : std::min(at.local - 1, 1);
  const double received_inside = share * (ring ? at.ranks - 1 : at.local - 1);
  double moving = received_inside / cluster.inside_host.bytes_per_second;
  cost.seconds += volume.rounds * hops_inside * cluster.inside_host.latency_seconds;
  if (at.hosts > 1) {
    if (!cluster.between_hosts) {
      throw core::ConfigError(
          fmt::format("'{}' joins ranks of {} hosts, {} on each, but cluster {} has no link between_hosts. Use at most "
                      "{} ranks, or "
                      "add the link to the cluster's file.",
                      op.name, at.hosts, cluster.ranks_per_host, cluster.name, cluster.ranks_per_host));
    }
    const double through_host = at.groups * share * (ring ? at.ranks - at.fewest : at.local * (at.ranks - at.local));
    const double hops = ring ? at.hosts - 1 : 1, latency = cluster.between_hosts->latency_seconds;
    cost.seconds += volume.rounds * hops * latency;
    // Both kinds of link work at once.
    const auto at_once = [&](double inside, double between) {
      return std::max(inside / cluster.inside_host.bytes_per_second, between / cluster.between_hosts->bytes_per_second);
    };
    moving = at_once(received_inside, through_host);
    if (const auto line = volume.sums ? line_cost(at, volume, layout, cluster) : std::nullopt) {
      cost.seconds += (line->ticks - hops) * latency - moving;
      cost.seconds += at_once(line->inside, at.groups * at.local * line->between);
    }
  }
  cost.seconds += volume.rounds * moving;
  return cost;
}

}  // namespace zrt::runtime
