// How far ahead of their use weights are gathered. It changes memory and seconds, never a bit.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/passes/compile.h"
#include "runtime/plan/fit.h"

namespace zrt::runtime {

// Compiles and, with `check`, verifies `phases` with the lead that the configuration leaves open:
//  - stage3_prefetch_bucket_size, where it is given, else the next block;
//  - with parallel.cluster the one that steps fastest there, of the next 0, 1, 2, 4 and 8 blocks within that limit;
//    of two that differ by less than 0.5 % the shorter;
//  - in any case the longest or fastest one whose plan `limits` hold; if none does, none ahead.
Compiled compile_with_lead(const Config& config, const Layout& layout, const std::vector<std::string>& phases,
                           const Limits& limits, bool check = true);

// Without "save", the copies in the host tier that checkpoints are written from while training goes on. They are worth
// no state's place: placements are settled without them, and where memory does not hold them a run goes without, and
// stands still for its checkpoints.
std::vector<std::string> without_copies(std::vector<std::string> phases);

}  // namespace zrt::runtime
