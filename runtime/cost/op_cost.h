// What one op costs on a cluster: seconds with its lane alone busy, and what it shares with other lanes meanwhile.
#pragma once
#include <optional>

#include "runtime/cost/cluster.h"
#include "runtime/program/layout.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

enum class Resource : uint8_t { compute, host, inside_host, between_hosts, link_up, link_down, disk };

struct OpCost {
  double seconds = 0;
  Resource resource = Resource::compute;
};

// Throws ConfigError when the cluster has no rates for the run's type, and when a collective spans hosts but the
// cluster has no link between them.
OpCost op_cost(const ProgramSet& set, const Op& op, const Layout& layout, const Cluster& cluster);

// Of load_batch, snapshot, export_state, fetch and evict. The two directions of the link between device and host know
// nothing of each other; the ranks of a host share its disk.
OpCost transfer_cost(const ProgramSet& set, const Op& op, const Layout& layout, const Cluster& cluster);

// Bytes of the slots that an op's accesses touch; with `use`, of those with this use.
double access_bytes(const ProgramSet& set, const Op& op, std::optional<Use> use = {});

// What a collective moves: a rank receives bytes · rounds · (N − 1)/N of N ranks.
struct Volume {
  double bytes = 0;    // what every rank holds at the end of a gather, or hands to a reduction
  double rounds = 1;   // an all-reduce is a reduction and a gather
  bool copies = true;  // a gather's own part lies elsewhere
};
Volume collective_volume(const ProgramSet& set, const Op& op, const Layout& layout);

// Forward and backward of one block over one microbatch. The rest of an op's cost follows from its buffers.
struct BlockCost {
  double forward_seconds = 0, backward_seconds = 0;
};
BlockCost block_cost(const models::Block& block, const models::Shape& shape, bool last, const ComputeRates& rates,
                     double memory_bytes_per_second);

// How the ranks of a collective lie on hosts.
struct HostSpread {
  int ranks = 1;   // of the collective
  int hosts = 1;   // that it spans
  int local = 1;   // ranks of it on a full host
  int fewest = 1;  // … on the host that has fewest
  int groups = 1;  // collectives like it on each host at the same time
};
HostSpread host_spread(Span span, const Layout& layout, int ranks_per_host);

}  // namespace zrt::runtime
