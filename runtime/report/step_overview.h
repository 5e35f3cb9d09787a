// The begin of a plan's page: one picture of all stages over the step, their memory beside its limit, where the seconds
// go, and how the groups of ranks lie on the hosts.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace zrt::runtime {

// HTML for page.h. `timelines`: of each stage, on one clock; without a cluster they count ops, and only memory is
// drawn.
std::vector<std::string> step_overview(const Plan& plan, const std::vector<std::vector<SimulatedOp>>& timelines);

}  // namespace zrt::runtime
