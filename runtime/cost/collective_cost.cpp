#include <fmt/format.h>

#include <algorithm>

#include "comm/nccl/host_line.h"
#include "comm/nccl/staging.h"
#include "core/error.h"
#include "runtime/cost/cost.h"

namespace zrt::runtime {

Way way_of(const HostSpread& at, const Cluster& cluster) {
  if (at.hosts == 1) return cluster.nccl_inside_hosts ? Way::nccl : Way::memory;
  return cluster.exchange == Exchange::once_per_host ? Way::nccl : Way::messages;
}

namespace {

// The line of hosts that the ranks of a group make; none where a run would find none, either.
std::optional<comm::HostLine> line_of(const HostSpread& at, const Cluster& cluster) {
  if (way_of(at, cluster) != Way::nccl || at.local < 2 || !at.even) return {};
  return comm::HostLine{at.hosts, at.local};
}

// Describes a sum along the line of hosts; none where a run would choose an all-to-all.
std::optional<comm::HostLine::Way> way_along_line(const HostSpread& at, const Volume& volume, const Cluster& cluster) {
  const auto line = volume.sums && !cluster.fast_sums ? line_of(at, cluster) : std::nullopt;
  if (!line) return std::nullopt;
  const double calls = static_cast<double>(volume.calls) * static_cast<double>(core::dtype_size(volume.from));
  const auto elements = static_cast<uint64_t>(volume.bytes / calls);
  const uint64_t staging = comm::nccl_staging_bytes(at.ranks);
  if (!line->pays(elements, volume.from, volume.to, staging)) return std::nullopt;
  return line->along(elements, volume.from, volume.to, staging);
}

void check_hosts(int ranks, const Cluster& cluster) {
  const int per_host = cluster.ranks_per_host, hosts = (ranks + per_host - 1) / per_host;
  if (!cluster.most_hosts || hosts <= *cluster.most_hosts) return;
  throw core::ConfigError(fmt::format(
      "{} ranks take {} hosts of {} each, but the link between_hosts of cluster {} connects {}. Use at most "
      "{} ranks, or a file with the link that connects more.",
      ranks, hosts, per_host, cluster.name, *cluster.most_hosts, *cluster.most_hosts * per_host));
}

}  // namespace

OpCost collective_cost(const Op& op, const Group& group, const Volume& volume, const Layout& layout,
                       const Cluster& cluster) {
  const HostSpread at = host_spread(group.ranks, layout.mesh.world(), cluster.ranks_per_host, cluster.distribution);
  const double share = volume.bytes / at.ranks;  // of one rank
  OpCost cost{cluster.op_seconds, at.hosts > 1 ? Resource::between_hosts : Resource::inside_host};
  if (volume.sums) {
    cost.seconds += volume.bytes / cluster.rates(layout.local_grad).sum_bytes_per_second;
  } else if (volume.copies) {
    cost.seconds += 2 * share / cluster.memory_bytes_per_second;
  }
  if (at.ranks == 1) return cost;

  const bool nccl = way_of(at, cluster) == Way::nccl, ring = nccl && (!volume.sums || cluster.fast_sums);
  const auto latencies = static_cast<double>(volume.latencies);
  if (nccl) cost.seconds += latencies * cluster.inside_host.base_seconds;
  const double hops_inside = ring ? at.ranks - at.hosts : std::min(at.local - 1, 1);
  const double received_inside = share * (ring ? at.ranks - 1 : at.local - 1);
  const double inside_rate = cluster.inside_host.rate(at.local);
  double moving = received_inside / inside_rate;
  cost.seconds += volume.rounds * latencies * hops_inside * cluster.inside_host.latency_seconds;
  if (at.hosts > 1) {
    if (!cluster.between_hosts) {
      throw core::ConfigError(
          fmt::format("'{}' joins ranks of {} hosts, {} on each, but cluster {} has no link between_hosts. Use at most "
                      "{} ranks, or "
                      "add the link to the cluster's file.",
                      op.name, at.hosts, cluster.ranks_per_host, cluster.name, cluster.ranks_per_host));
    }
    check_hosts(layout.mesh.world(), cluster);
    // A ring hands on all parts but one over each of its links, between hosts, too.
    const double through_host = at.groups * share * (ring ? at.ranks - 1 : at.local * (at.ranks - at.local));
    const double between_rate = volume.share_between * cluster.between_hosts->bytes_per_second;
    const double hops = latencies * (ring ? at.hosts - 1 : 1), latency = cluster.between_hosts->latency_seconds;
    cost.seconds += volume.rounds * hops * latency;
    // Both kinds of link work at once.
    const auto at_once = [&](double inside, double between) {
      return std::max(inside / inside_rate, between / between_rate);
    };
    moving = at_once(received_inside, through_host);
    if (const auto line = way_along_line(at, volume, cluster)) {
      const auto calls = static_cast<double>(volume.calls), through = static_cast<double>(at.groups * at.local);
      cost.seconds += (calls * static_cast<double>(line->ticks) - hops) * latency - moving;
      cost.seconds += at_once(calls * static_cast<double>(line->bytes_inside),
                              through * calls * static_cast<double>(line->bytes_between));
    }
  }
  cost.seconds += volume.rounds * moving;
  return cost;
}

}  // namespace zrt::runtime
