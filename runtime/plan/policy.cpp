#include "runtime/plan/policy.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/passes/compile.h"
#include "runtime/plan/offload_candidates.h"

namespace zrt::runtime {
namespace {

std::vector<Layout> offload_cheapest(const FitProblem& problem, const Layout& start) {
  if (!start.open_placement) return {cheapest_offload(problem, start)};
  return {cheapest_offload(problem, start), states_offload(problem, start)};
}

std::vector<PlacementPolicy>& registered() {
  static std::vector<PlacementPolicy> all{
      {"cheapest offload", offload_cheapest},
  };
  return all;
}

}  // namespace

TierBytes FitProblem::peaks(const Layout& layout) const {
  Decisions key = layout;
  // Programs do not depend on what may still change.
  key.open_gathered_for = key.open_overlap = key.open_placement = key.open_recompute = key.open_activations = false;
  const auto same = [&](const auto& one) { return one.first == key; };
  const auto found = std::find_if(known.begin(), known.end(), same);
  if (found != known.end()) return found->second;
  return known.emplace_back(std::move(key), peak_bytes(compile(layout, phases, {}, false).plan)).second;
}

const std::vector<PlacementPolicy>& placement_policies() {
  return registered();
}

void register_placement_policy(PlacementPolicy policy) {
  const bool taken = std::any_of(registered().begin(), registered().end(),
                                 [&](const PlacementPolicy& other) { return other.name == policy.name; });
  if (taken) {
    throw core::ConfigError(
        fmt::format("there is a placement policy '{}' already; register another name", policy.name));
  }
  registered().push_back(std::move(policy));
}

}  // namespace zrt::runtime
