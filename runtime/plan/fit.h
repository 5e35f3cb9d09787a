// The one search for a setting of a run that fits its memory: overlap, of all stages of a pipeline alike, and
// placement, recomputation (where memory is left: none at all), order of microbatches, prefetch distance, of each stage
// for itself or of all alike. Results are the same bits for every outcome.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/passes/compile.h"
#include "runtime/plan/limits.h"

namespace zrt::runtime {

// parallel.cluster, or a machine of today, as the run uses it.
Cluster machine_of(const Config& config);

struct FitRequest {
  std::vector<std::string> phases;
  Limits limits;           // that placement and recomputation keep to
  Limits distance_limits;  // that what is gathered keeps to, and how far ahead: those a run knows
  // Says whether memory holds what was compiled with "save", the copies in the host tier that checkpoints are written
  // from while training goes on. They are worth no state's place: placements are settled without them, and where this
  // says no a run goes without, and stands still for its checkpoints.
  std::function<bool(const Compiled&)> holds_copies;
  bool timed = true;  // the fastest on the cluster or a machine of today; else the first that fits is enough
  bool check = true;  // verify the outcome
};

struct Fitted {
  std::vector<Compiled> stages;     // of layouts that leave nothing open
  std::vector<std::string> phases;  // with "save" or without
};

// Bytes of states beyond what all tiers of a rank hold together, of the stage that lacks most: it fits in no placement.
// 0 where a tier has no limit, or the configuration says where states are.
uint64_t missing_bytes(const Config& config, const std::vector<Layout>& layouts, const Limits& limits);

// Settles what a configuration leaves open in the layouts of all stages and compiles them. Where nothing fits, it
// returns what needs the least memory.
Fitted fit(const Config& config, const std::vector<Layout>& layouts, const FitRequest& request);

}  // namespace zrt::runtime
