// The search for placement, recomputation and order of microbatches of one stage, for fit.h.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/plan/limits.h"
#include "runtime/program/layout.h"

namespace zrt::runtime {

// Fills what a configuration leaves open (Layout::open_placement, open_recompute, MicrobatchOrder::choices). Where
// everything fits the device tier, only the order may change. Without `times` only placements with nothing fetched
// ahead are tried, which need the least memory. Where nothing is enough, the layout is left with the least memory.
void settle_placement(const Config& config, Layout& layout, const std::vector<std::string>& phases,
                      const Limits& limits, bool times);

// Bytes of states beyond what all tiers of a rank hold together; see fit.h.
uint64_t missing_bytes(const Config& config, const Layout& layout, const Limits& limits);

}  // namespace zrt::runtime
