// Placement as one problem: what leaves the device tier so that a run fits, and whether it moves or is computed again.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/fit.h"

namespace zrt::runtime {

// Fills what a configuration leaves open (Layout::open_placement, open_recompute, MicrobatchOrder::automatic) so that
// the programs of `phases` keep within `limits`. Where everything fits the device tier nothing changes. Else the states
// of units and the activations of blocks leave it one by one, those first whose absence costs the step the least time
// for each byte it frees: as a rule masters and moments, then gradients, then weights, and activations where neither
// moving them nor computing them again is dearer. What the host tier does not hold goes on to the NVMe tier, if the
// configuration has one, in the same order. Costs are those of parallel.cluster, or of a machine of today.
//
// Results are the same bits for every placement. Where nothing is enough, the layout is left with the least memory.
// Without `times` only the departures with nothing fetched ahead are tried, which need the least memory.
void settle_placement(const Config& config, Layout& layout, const std::vector<std::string>& phases,
                      const Limits& limits, bool times = true);

// What may leave the device tier, the cheapest first.
struct Leaving {
  enum class What : uint8_t { optimizer, grad, weight, activations, recompute } what;
  size_t index;    // of the unit or block
  uint64_t bytes;  // that it frees
  double seconds;  // that it costs a step, if nothing is hidden
  double price() const { return seconds / static_cast<double>(bytes); }
};
std::vector<Leaving> leaving_order(const Config& config, const Layout& layout, const Cluster& cluster);

}  // namespace zrt::runtime
