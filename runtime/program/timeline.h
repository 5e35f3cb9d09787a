// Executions of a program with vector clocks: which of them are ordered on every interleaving the lanes allow.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "runtime/program/program.h"

namespace zrt::runtime {

inline constexpr size_t max_lanes = 20;
// Counts the turns of a repeated segment that are looked at: the first, two that follow each other, and one more for
// slots that alternate: a further turn meets the same neighbours. All are looked at where slots go round and are used
// again, or where what a late turn leaves is taken behind the segment.
uint32_t checked_turns(const ProgramSet& set, const Program& program);

using Clock = std::array<uint32_t, max_lanes>;  // executions of each lane known to have finished

struct Execution {
  OpId op = 0;
  uint32_t iteration = 0;
  uint8_t lane = 0;
  uint32_t index = 0;  // on its lane, from 0
  Clock clock{};       // when it has finished, itself included
};

inline bool happens_before(const Execution& a, const Execution& b) {
  return b.clock[a.lane] > a.index;
}

// Returns executions in program order, with lanes in FIFO order and waits meaning "the latest execution of that op so
// far". Some turns of a repeated segment stand for all.
std::vector<Execution> make_timeline(const ProgramSet& set, const Program& program);

// Builds a timeline one execution at a time; used by the pass that chooses the waits.
class TimelineBuilder {
 public:
  explicit TimelineBuilder(size_t ops) : latest_(ops, ~0u) {}
  // True where `earlier` (a position in executions()) has surely finished before the next execution on `lane`.
  bool known(size_t earlier, uint8_t lane) const;
  void wait(uint8_t lane, size_t earlier);  // the lane's next execution waits for it
  void wait_latest(uint8_t lane, OpId op);  // nothing when it has not run yet
  size_t append(OpId op, uint32_t iteration, uint8_t lane);
  const std::vector<Execution>& executions() const { return executions_; }

 private:
  std::vector<Execution> executions_;
  std::array<Clock, max_lanes> lanes_{};
  std::vector<uint32_t> latest_;  // by op: position of its latest execution
};

}  // namespace zrt::runtime
