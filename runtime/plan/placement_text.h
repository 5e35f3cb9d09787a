// Tells people where states live and which blocks a stage has.
#pragma once
#include <string>

#include "runtime/program/layout.h"
#include "runtime/program/memory_plan.h"

namespace zrt::runtime {

// "layers 0–11: master, exp_avg, exp_avg_sq → host": a line for each set of states with one resident tier other than
// the device, each side of updates but the device's, and what layers compute again. Empty where there is nothing to
// say.
std::string resident_tiers_text(const Layout& layout);

// The same below a table of the bytes that a rank keeps in each tier, by category of state.
std::string placement_text(const Layout& layout, const MemoryPlan& plan);

// "embedding, layers 0–5": the blocks of a stage of a pipeline.
std::string blocks_text(const models::Model& model);

}  // namespace zrt::runtime
