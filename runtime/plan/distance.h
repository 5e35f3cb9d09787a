// Says how far ahead of their use weights are gathered: that changes memory and seconds, never a bit.
#pragma once
#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/passes/compile.h"
#include "runtime/plan/limits.h"

namespace zrt::runtime {

// Compiles and, with `check`, verifies `phases` at the prefetch distance that the configuration leaves open:
//  - stage3_prefetch_bucket_size, where it is given, else the next block;
//  - with parallel.cluster the one that steps fastest there, of the next 0, 1, 2, 4 and 8 blocks within that limit;
//    of two that differ by less than 0.5 % the shorter;
//  - in any case the longest or fastest one whose plan `limits` hold; if none does, none ahead.
Compiled compile_at_distance(const Config& config, const Layout& layout, const std::vector<std::string>& phases,
                             const Limits& limits, bool check = true);

void verify_stage(Compiled& stage);  // and takes its time

}  // namespace zrt::runtime
