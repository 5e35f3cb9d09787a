#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/cost/cost.h"

namespace zrt::runtime {

HostSpread host_spread(Span span, const Layout& layout, int ranks_per_host) {
  const int hosts = (layout.dp + ranks_per_host - 1) / ranks_per_host;
  const int inner = layout.groups.inner;
  if (hosts == 1) return {layout.ranks(span), 1, layout.ranks(span), layout.ranks(span), 1};
  switch (span) {
    case Span::all:
      break;
    case Span::inner: {
      const bool aligned = inner <= ranks_per_host ? ranks_per_host % inner == 0 : inner % ranks_per_host == 0;
      const int spanned = (inner + ranks_per_host - 1) / ranks_per_host + (aligned ? 0 : 1);
      const int local = std::min((inner + spanned - 1) / spanned, ranks_per_host);
      return {inner, spanned, local, inner - (spanned - 1) * local, std::max(1, ranks_per_host / inner)};
    }
    case Span::outer: {
      const int local = std::max(1, ranks_per_host / inner);
      const int groups = layout.dp / inner, spanned = (groups + local - 1) / local;
      return {groups, spanned, local, groups - (spanned - 1) * local, std::min(inner, ranks_per_host)};
    }
  }
  return {layout.dp, hosts, ranks_per_host, layout.dp - (hosts - 1) * ranks_per_host, 1};
}

OpCost collective_cost(const Op& op, const Volume& volume, const Layout& layout, const Cluster& cluster) {
  const HostSpread at = host_spread(op.span, layout, cluster.ranks_per_host);
  const double share = volume.bytes / at.ranks;  // of one rank
  OpCost cost{cluster.op_seconds, at.hosts > 1 ? Resource::between_hosts : Resource::inside_host};
  if (volume.sums) {
    cost.seconds += volume.bytes / cluster.rates(layout.local_grad).sum_bytes_per_second;
  } else if (volume.copies) {
    cost.seconds += 2 * share / cluster.memory_bytes_per_second;
  }
  if (at.ranks == 1) return cost;

  const bool once = cluster.exchange == Exchange::once_per_host;
  const double hops_inside = once ? at.ranks - at.hosts : std::min(at.local - 1, 1);
  const double received_inside = share * (once ? at.ranks - 1 : at.local - 1);
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
    const double through_host = at.groups * share * (once ? at.ranks - at.fewest : at.local * (at.ranks - at.local));
    cost.seconds += volume.rounds * (once ? at.hosts - 1 : 1) * cluster.between_hosts->latency_seconds;
    // Both kinds of link work at once.
    moving = std::max(moving, through_host / cluster.between_hosts->bytes_per_second);
  }
  cost.seconds += volume.rounds * moving;
  return cost;
}

}  // namespace zrt::runtime
