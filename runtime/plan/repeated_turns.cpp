#include "runtime/plan/repeated_turns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

namespace zrt::runtime {
namespace {

// Counts the turns of the segment that is repeated the fewest times. 0 where a stage repeats none, or stages repeat
// different numbers of segments, so that turns of one are not those of another.
uint32_t fewest_turns(std::span<const SimulatedStage> stages) {
  uint32_t fewest = ~0u;
  std::optional<size_t> repeated;
  for (const SimulatedStage& stage : stages) {
    size_t number = 0;
    for (const Segment& segment : stage.program->segments) {
      if (segment.repeat == 1) continue;
      ++number;
      fewest = std::min(fewest, segment.repeat);
    }
    if (number == 0 || repeated.value_or(number) != number) return 0;
    repeated = number;
  }
  return fewest;
}

// Says whether from b to c every figure grows as it does from a to b: by so little less or more that `times` such
// differences do not show.
bool steady(const std::array<std::vector<Simulation>, 3>& runs, double times, double seconds) {
  constexpr double exact = 1e-5;
  const auto grows = [&](double a, double b, double c) { return std::abs(c - 2 * b + a) * times <= exact * seconds; };
  for (size_t s = 0; s < runs[0].size(); ++s) {
    const Simulation &a = runs[0][s], &b = runs[1][s], &c = runs[2][s];
    for (double Simulation::*field :
         {&Simulation::seconds, &Simulation::exposed_comm_seconds, &Simulation::exposed_io_seconds}) {
      if (!grows(a.*field, b.*field, c.*field)) return false;
    }
    for (size_t l = 0; l < a.busy_seconds.size(); ++l) {
      if (!grows(a.busy_seconds[l], b.busy_seconds[l], c.busy_seconds[l])) return false;
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

std::vector<Simulation> from_few_turns(std::span<const SimulatedStage> stages, const RunTurns& run) {
  const uint32_t turns = fewest_turns(stages);
  constexpr uint32_t apart = 4;  // what alternates from turn to turn is the same so many turns later
  // A difference in one stage shows in the last one so many turns later.
  for (auto few = std::max(apart, static_cast<uint32_t>(stages.size())); few + 2 * apart < turns / 4; few *= 4) {
    std::array<std::vector<Simulation>, 3> runs;
    for (uint32_t i = 0; i < runs.size(); ++i) {
      runs[i] = run(turns - few - i * apart);
      if (runs[i].empty()) return {};
    }
    const double times = 1 + static_cast<double>(turns - few - 2 * apart) / apart;
    std::vector<Simulation> all = extended(runs[1], runs[2], times);
    if (steady(runs, times, all.front().seconds)) return all;
  }
  return {};
}

}  // namespace zrt::runtime
