// zrt's own placement policy: what leaves the device tier so that a run fits, and whether it moves or is computed
// again.
#pragma once
#include <vector>

#include "runtime/plan/policy.h"

namespace zrt::runtime {

// The states of units and the activations of blocks leave the device tier one by one, those first whose absence costs
// the step the least time for each byte it frees: as a rule masters and moments, then gradients, then weights, and
// activations where neither moving them nor computing them again is dearer. What the host tier does not hold goes on to
// the NVMe tier, if the configuration has one, in the same order. Returns the layout in which the fewest candidates
// have left for the tiers to hold the rest. Where the device does not hold what stays when all have left, it returns
// that layout, with nothing on NVMe: no other one needs less of the device.
Layout cheapest_offload(const FitProblem& problem, const Layout& start);
// All states have left for the host tier, as with memory.placement "host"; activations stay, or are computed again.
// A step with all states there may be faster than one with few: updates on the host fetch what stays on the device.
Layout states_offload(const FitProblem& problem, const Layout& start);
// All candidates have left, the fewest of them for the NVMe tier.
Layout least_offload(const FitProblem& problem, const Layout& start);

// Bytes of states that a rank keeps in one tier or another, whatever the placement.
uint64_t state_bytes(const Layout& layout);

// A candidate is what may leave the device tier; offload_order() has the cheapest first.
struct OffloadCandidate {
  enum class What : uint8_t { optimizer, grad, weight, activations, recompute } what;
  size_t index;    // of the unit or block
  uint64_t bytes;  // that it frees
  double seconds;  // that it costs a step, if nothing is hidden
  double price() const { return seconds / static_cast<double>(bytes); }
};
std::vector<OffloadCandidate> offload_order(const Layout& layout, const Cluster& cluster);

}  // namespace zrt::runtime
