// Says what would have to change where a run does not fit its memory.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "runtime/plan/fit.h"

namespace zrt::runtime {

// A change that makes a run fit. Where the batch cannot stay as it is, train_batch_size is among the changes.
struct Suggestion {
  std::vector<std::pair<std::string, std::string>> changes;  // key of the configuration, or "ranks", and its new value
  TierBytes peaks{};
  uint64_t comm_bytes = 0;                 // received by a rank in a step
  std::optional<double> seconds_per_step;  // on the cluster
  double cost = 0;              // rank-seconds per token; without a cluster, bytes that ranks receive and move
  std::string options() const;  // "--set zero_optimization.stage=3", for a command line
};

// The caller's way to fit a configuration and to judge the outcome. Suggestions take their figures from it, so that a
// user who follows one sees the same figures again.
struct FitRules {
  std::function<FitRequest(const Config& config)> request;
  std::function<bool(const Config& config, const std::vector<Compiled>& stages)> holds;
};

// The smallest changes that make the run fit, the cheapest first: each alone where one is enough, else with a higher
// stage, else all together. Candidates are stages, microbatches with more accumulation, windows of reduce_every,
// units, overlap and the number of ranks; and other ways, of each the mildest: recomputation, degrees of the mesh,
// schedule, forms of states and of frozen weights, automatic placement. They are sought within `limits`, by `phases`,
// and those found are fitted by the rules. `model` stays. Empty when none of them is enough. `cluster` may be null.
std::vector<Suggestion> suggest_fits(const Config& config, const models::Model& model,
                                     const std::vector<std::string>& phases, const Limits& limits,
                                     const Cluster* cluster, const FitRules& rules);
// A line each, or what to do when there are none.
std::string suggestions_text(const std::vector<Suggestion>& suggestions);

}  // namespace zrt::runtime
