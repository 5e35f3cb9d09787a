// A plan as a page.
#pragma once
#include "runtime/plan/plan.h"

namespace zrt::runtime {

// One HTML page: all stages over a step, their memory and seconds; then of the stages that the plan's table lists, or
// of the one that is asked for, lanes and memory over time.
std::string plan_page(const Plan& plan, const StagesShown& shown = {});

}  // namespace zrt::runtime
