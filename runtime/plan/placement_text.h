// Where states live, for people.
#pragma once
#include <string>

#include "runtime/program/layout.h"
#include "runtime/program/memory_plan.h"

namespace zrt::runtime {

// "layers 0–11: master, exp_avg, exp_avg_sq → host": a line for each set of states with one home outside of the device
// tier, each side of updates but the device's, and what layers compute again. Empty where there is nothing to say.
std::string homes_text(const Layout& layout);

// The same below a table of the bytes that a rank keeps in each tier, by category of state.
std::string placement_text(const Layout& layout, const MemoryPlan& plan);

}  // namespace zrt::runtime
