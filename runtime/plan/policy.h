// Ways to place states and activations so that a run fits. Policies propose, fit() judges what they propose by the plan
// and the simulator.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/cost/cluster.h"
#include "runtime/plan/limits.h"
#include "runtime/program/layout.h"

namespace zrt::runtime {

struct FitProblem {
  const Config& config;
  const std::vector<std::string>& phases;
  const Limits& limits;
  const Cluster& cluster;                                           // that costs are of
  mutable std::vector<std::pair<Decisions, TierBytes>> known = {};  // that peaks() has compiled

  // Compiles it. Layouts of a problem differ in their decisions alone; what has been asked for is known.
  TierBytes peaks(const Layout& layout) const;
  bool holds(const Layout& layout) const { return limits.hold(peaks(layout)); }
};

struct PlacementPolicy {
  std::string name;
  // Layouts that differ from `start` in their placement alone, where Layout::open_placement and open_recompute allow
  // it. Of those that fit the fastest is taken, of equals the first.
  std::function<std::vector<Layout>(const FitProblem& problem, const Layout& start)> propose;
};

// Policies stand in the order of their registration, which is that of trust where nothing is timed. zrt's own is
// "cheapest offload" (runtime/plan/offload_candidates.h).
const std::vector<PlacementPolicy>& placement_policies();
// Throws ConfigError for a name that is taken.
void register_placement_policy(PlacementPolicy policy);

}  // namespace zrt::runtime
