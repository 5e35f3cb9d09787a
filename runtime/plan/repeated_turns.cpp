#include "runtime/plan/repeated_turns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace zrt::runtime {
namespace {

constexpr double exact = 1e-5;  // of a step

uint32_t most_turns(const Program& program) {
  uint32_t most = 0;
  for (const Segment& segment : program.segments) most = std::max(most, segment.repeat);
  return most;
}

// Counts the microbatches of a turn; 0 where turns are not of microbatches.
uint32_t microbatches_of_turn(const Program& program, const Segment& segment) {
  uint32_t most = 0;
  for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
    most = std::max(most, program.ops[id].microbatch.step);
  }
  return most;
}

// The long segments of a stage: how many there are, how often the one that is repeated least is, and the microbatches
// of a turn.
struct Long {
  size_t segments = 0;
  uint32_t turns = ~0u, microbatches = 0;
};
Long long_segments(const Program& program) {
  Long all;
  const SkippedTurns rule(program, 0);
  for (const Segment& segment : program.segments) {
    if (!rule.skips(segment)) continue;
    const uint32_t microbatches = microbatches_of_turn(program, segment);
    if (all.segments++ > 0 && microbatches != all.microbatches) return {};
    all.turns = std::min(all.turns, segment.repeat);
    all.microbatches = microbatches;
  }
  return all.microbatches > 0 ? all : Long{};
}

// Says whether from b to c every figure grows as it does from a to b: by so little less or more that `times` such
// differences do not show in the seconds, and in what lanes do of them not beyond a share `of_lanes`.
bool steady(const std::array<std::vector<Simulation>, 3>& runs, double times, double seconds, double of_lanes) {
  const auto grows = [&](double a, double b, double c, double share) {
    return std::abs(c - 2 * b + a) * times <= share * seconds;
  };
  for (size_t s = 0; s < runs[0].size(); ++s) {
    const Simulation &a = runs[0][s], &b = runs[1][s], &c = runs[2][s];
    if (!grows(a.seconds, b.seconds, c.seconds, exact)) return false;
    for (double Simulation::*field : {&Simulation::exposed_comm_seconds, &Simulation::exposed_io_seconds}) {
      if (!grows(a.*field, b.*field, c.*field, of_lanes)) return false;
    }
    for (size_t l = 0; l < a.busy_seconds.size(); ++l) {
      if (!grows(a.busy_seconds[l], b.busy_seconds[l], c.busy_seconds[l], of_lanes)) return false;
    }
  }
  return true;
}

// a + times · (b − a).
std::vector<Simulation> extended(const std::vector<Simulation>& a, const std::vector<Simulation>& b, double times) {
  std::vector<Simulation> all = b;
  const auto extend = [&](double from, double& to) { to = from + times * (to - from); };
  for (size_t s = 0; s < all.size(); ++s) {
    extend(a[s].seconds, all[s].seconds);
    extend(a[s].exposed_comm_seconds, all[s].exposed_comm_seconds);
    extend(a[s].exposed_io_seconds, all[s].exposed_io_seconds);
    for (size_t l = 0; l < all[s].busy_seconds.size(); ++l) extend(a[s].busy_seconds[l], all[s].busy_seconds[l]);
  }
  return all;
}

}  // namespace

SkippedTurns::SkippedTurns(const Program& program, uint32_t skipped)
    : fewest_(std::max(2u, (most_turns(program) + 1) / 2)), skipped_(skipped) {}

std::vector<Simulation> from_few_turns(std::span<const SimulatedStage> stages, Wanted wanted, const RunWithout& run) {
  // Stages leave out the same microbatches, in turns of their own.
  std::vector<Long> all;
  uint32_t together = 1, turns = ~0u;  // microbatches of a turn of all stages, and the number of such turns
  for (const SimulatedStage& stage : stages) {
    all.push_back(long_segments(*stage.program));
    if (all.back().segments == 0 || all.back().segments != all.front().segments) return {};
    together = std::lcm(together, all.back().microbatches);
  }
  for (const Long& stage : all) turns = std::min(turns, stage.turns / (together / stage.microbatches));
  constexpr uint32_t apart = 4;  // what alternates from turn to turn is the same so many turns later
  // A difference in one stage shows in the last one so many turns later.
  const auto fewest = std::max(apart, static_cast<uint32_t>(stages.size()));
  const auto are_few = [&](uint32_t some) { return some + 2 * apart < turns / 4; };
  for (uint32_t few = fewest; are_few(few); few *= 4) {
    std::array<std::vector<Simulation>, 3> runs;
    for (uint32_t i = 0; i < runs.size(); ++i) {
      std::vector<uint32_t> skipped;
      skipped.reserve(all.size());
      for (const Long& stage : all) skipped.push_back((turns - few - i * apart) * (together / stage.microbatches));
      runs[i] = run(skipped);
      if (runs[i].empty()) return {};
    }
    const double times = 1 + static_cast<double>(turns - few - 2 * apart) / apart;
    std::vector<Simulation> found = extended(runs[1], runs[2], times);
    // Stages may hand a wait on to one another for long in a step that takes as long as ever.
    const double of_lanes = wanted == Wanted::seconds ? HUGE_VAL : exact;
    if (steady(runs, times, found.front().seconds, of_lanes)) return found;
  }
  return {};
}

}  // namespace zrt::runtime
