// Says what work costs on a cluster: seconds with its lane alone busy, and what it shares with other lanes meanwhile.
// The row of each kind of op says which work it does (runtime/ops/spec.h).
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/cost/cluster.h"
#include "runtime/program/layout.h"
#include "runtime/program/moved.h"
#include "runtime/program/program.h"

namespace zrt::runtime {

enum class Resource : uint8_t { compute, host, inside_host, between_hosts, link_up, link_down, disk };

struct OpCost {
  double seconds = 0;
  Resource resource = Resource::compute;
  bool blocks = false;  // the compute lane stands still meanwhile
};

// A collective moves this: a rank receives bytes · rounds · (N − 1)/N of N ranks.
struct Volume {
  double bytes = 0;    // what every rank holds at the end of a gather, or hands to a reduction
  double rounds = 1;   // an all-reduce is a reduction and a gather
  bool copies = true;  // a gather's own part lies elsewhere
  bool sums = false;   // numbers of the type of local gradients are added up
  core::DType from = core::DType::f32, to = core::DType::f32;  // types of a sum's contributions and its result
  size_t calls = 1;                                            // that move the bytes, each as much
  size_t latencies = 1;                                        // that follow each other
  double share_between = 1;                                    // of the bandwidth between hosts
  std::optional<uint64_t> received{};                          // by the first rank, where it is no such fraction
};

// Ranks of a group inside a host read each other's memory, unless NCCL connects them there, too. A group of several
// hosts takes NCCL where the cluster's links carry each byte once, as its rings do, else messages of the host, one from
// each rank to each.
enum class Way : uint8_t { memory, nccl, messages };
Way way_of(const HostSpread& at, const Cluster& cluster);

// Over NCCL gathers and fast sums go round rings. Sums in the order of ranks do not: each rank is sent what the
// others contribute to its part, or partial sums go along a line of hosts, as a run would choose
// (comm/nccl/host_line.h).
// Throws ConfigError, with the op's name, when it spans hosts but the cluster has no link between them, when that link
// connects fewer hosts than the run has, and when the cluster has no rates for the type that is summed.
OpCost collective_cost(const Op& op, const Group& group, const Volume& volume, const Layout& layout,
                       const Cluster& cluster);

// Prices bytes that go through memory: the device's, or on the host lane the host's.
OpCost memory_cost(double bytes, bool on_host, const Cluster& cluster);

// Prices bytes that cross the link between device and host. Its two directions know nothing of each other.
OpCost link_cost(double bytes, Resource direction, const Cluster& cluster);

// Prices bytes that move between tiers. The ranks of a host share its disk.
OpCost transfer_cost(const Moved& bytes, const Layout& layout, const Cluster& cluster);

// Forward and backward of one block over one microbatch, as the last of a model or not. The rest of an op's cost
// follows from its buffers.
struct BlockCost {
  double forward_seconds = 0, backward_seconds = 0;
};
BlockCost block_cost(const models::Block& block, const models::Shape& shape, bool last, const Cluster& cluster);
// Returns the share of that cost that a call of parts takes, going by products; 0 of a block without products, but for
// its first part.
double share_of_pass(const models::Block& block, const models::Shape& shape, models::Parts parts, models::Half half);

}  // namespace zrt::runtime
