// Whether a run fits its memory, and what would have to change where it does not.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/cost/cluster.h"
#include "runtime/passes/compile.h"

namespace zrt::runtime {

// The bytes that a rank may use of a tier, and who says so: a key or a cluster.
struct Limit {
  uint64_t bytes = 0;
  std::string from;
};
using TierBytes = std::array<uint64_t, core::tier_count>;
TierBytes peak_bytes(const MemoryPlan& plan);
struct Limits {
  std::array<std::optional<Limit>, core::tier_count> tiers;  // none: unlimited
  bool more_ranks = true;                                    // whether more ranks would bring more memory
  std::optional<Limit>& of(core::Tier tier) { return tiers[static_cast<size_t>(tier)]; }
  bool hold(const TierBytes& peaks) const;
};
// memory.*_budget_bytes and, of a cluster, its device and each rank's share of its host's memory: the smaller of each.
Limits memory_limits(const Config& config, const Cluster* cluster);

// "device needs 123 bytes (…) but memory.device_budget_bytes is 100", for each tier that does not hold the plan.
std::string shortage_text(const MemoryPlan& plan, const Limits& limits);

// A change that makes a run fit. Where the batch cannot stay as it is, train_batch_size is among the changes.
struct Suggestion {
  std::vector<std::pair<std::string, std::string>> changes;  // key of the configuration, or "ranks", and its new value
  TierBytes peaks{};
  uint64_t comm_bytes = 0;                 // received by a rank in a step
  std::optional<double> seconds_per_step;  // on the cluster
  double cost = 0;                         // rank-seconds per token; without a cluster, bytes that ranks receive for it
  std::string options() const;             // "--set zero_optimization.stage=3", for a command line
};

// The smallest changes that make the run fit, the cheapest first: each alone where one is enough, else with a higher
// stage, else all together. Candidates are stages, microbatches with more accumulation, windows of reduce_every,
// units, overlap and the number of ranks. Each is compiled as the run itself. `model` stays.
// Empty when none of them is enough. `cluster` may be null.
std::vector<Suggestion> suggest_fits(const Config& config, const models::Model& model,
                                     const std::vector<std::string>& phases, const Limits& limits,
                                     const Cluster* cluster);
// A line each, or what to do when there are none.
std::string suggestions_text(const std::vector<Suggestion>& suggestions);

}  // namespace zrt::runtime
