// Says what a rank may use of its memory.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>

#include "runtime/config/config.h"
#include "runtime/cost/cluster.h"
#include "runtime/passes/compile.h"
#include "runtime/plan/gpus.h"

namespace zrt::runtime {

// The bytes that a rank may use of a tier, and who says so: a key or a cluster.
struct Limit {
  uint64_t bytes = 0;
  std::string from;
};
using TierBytes = std::array<uint64_t, core::tier_count>;
TierBytes peak_bytes(const MemoryPlan& plan);
TierBytes peak_bytes(std::span<const Compiled> stages);  // the most of any stage, by tier
struct Limits {
  std::array<std::optional<Limit>, core::tier_count> tiers;  // none: unlimited
  bool more_ranks = true;                                    // whether more ranks would bring more memory
  std::optional<Limit>& of(core::Tier tier) { return tiers[static_cast<size_t>(tier)]; }
  bool hold(const TierBytes& peaks) const { return excess(peaks) == 0; }
  double excess(const TierBytes& peaks) const;  // bytes of all tiers above their limits
};
// memory.*_budget_bytes and, of a cluster, its device but for what is reserved there, and each rank's share of its
// host's memory: the smaller of each.
Limits memory_limits(const Config& config, const Cluster* cluster);

// The configuration with Config::ranks_in_reach as a run on this cluster finds it; unchanged without one, and where it
// is known already. No rank reaches another where hosts have different numbers of ranks, or ranks take hosts in turns.
Config on_cluster(Config config, const Cluster* cluster);

// A run on GPUs has yet to take these parts when it asks for what is free: its cluster's (parallel.cluster), else the
// usual ones. There are none on the CPU.
Reserved reserved_in_run(const Config& config);
// Each rank of a GPU may use its part of what is free on it, less `reserved`.
Limits gpu_limits(const GpuRoom& room, const Reserved& reserved);

// "device needs 123 bytes (…) but memory.device_budget_bytes is 100", for each tier that does not hold the plan.
std::string shortage_text(const MemoryPlan& plan, const Limits& limits);

}  // namespace zrt::runtime
