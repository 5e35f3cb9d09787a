// Steps of many microbatches from few of their turns, which repeat themselves.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "runtime/plan/simulator.h"

namespace zrt::runtime {

// Leaves out turns of a program: the last ones of its long segments, which are those that are repeated at least half as
// often as the one that is repeated most. The segments around a long one, with which a pipeline fills and drains, stay.
class SkippedTurns {
 public:
  SkippedTurns(const Program& program, uint32_t skipped);
  bool skips(const Segment& segment) const { return segment.repeat >= fewest_; }
  uint32_t turns(const Segment& segment) const {  // that are left of it
    return skips(segment) ? segment.repeat - skipped_ : segment.repeat;
  }

 private:
  const uint32_t fewest_, skipped_;
};

// Simulates all stages, each without so many turns (SkippedTurns); empty where stages then wait for each other for
// ever.
using RunWithout = std::function<std::vector<Simulation>(const std::vector<uint32_t>& skipped_turns)>;

// Goes on from few turns of what is repeated to all of them, once every figure of every stage grows from turn to turn
// as it did before. Figures that are asked for are then right to 1e-5 of a step. Returns nothing where that shows in
// none of few turns.
std::vector<Simulation> from_few_turns(std::span<const SimulatedStage> stages, Wanted wanted, const RunWithout& run);

}  // namespace zrt::runtime
