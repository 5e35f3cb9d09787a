// Steps of many microbatches from few of their turns, which repeat themselves.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "runtime/plan/simulator.h"

namespace zrt::runtime {

// Simulates all stages without the last `skipped` turns of each segment that is repeated; empty where stages then wait
// for each other for ever.
using RunTurns = std::function<std::vector<Simulation>(uint32_t skipped)>;

// Goes on from few turns of what is repeated to all of them: once every figure of every stage grows from turn to turn
// as it did before, it goes on to. Empty where that shows in none of few turns.
std::vector<Simulation> from_few_turns(std::span<const SimulatedStage> stages, const RunTurns& run);

}  // namespace zrt::runtime
