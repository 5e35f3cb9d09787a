#include "runtime/program/timeline.h"

#include <algorithm>

namespace zrt::runtime {

bool TimelineBuilder::known(size_t earlier, uint8_t lane) const {
  const Execution& e = executions_[earlier];
  return e.lane == lane || lanes_[lane][e.lane] > e.index;
}

void TimelineBuilder::wait(uint8_t lane, size_t earlier) {
  const Clock& clock = executions_[earlier].clock;
  for (size_t l = 0; l < max_lanes; ++l) lanes_[lane][l] = std::max(lanes_[lane][l], clock[l]);
}

void TimelineBuilder::wait_latest(uint8_t lane, OpId op) {
  if (latest_[op] != ~0u) wait(lane, latest_[op]);
}

size_t TimelineBuilder::append(OpId op, uint32_t iteration, uint8_t lane) {
  Execution e;
  e.op = op;
  e.iteration = iteration;
  e.lane = lane;
  e.index = lanes_[lane][lane];
  ++lanes_[lane][lane];
  e.clock = lanes_[lane];
  latest_[op] = static_cast<uint32_t>(executions_.size());
  executions_.push_back(e);
  return executions_.size() - 1;
}

std::vector<Execution> make_timeline(const Program& program) {
  TimelineBuilder builder(program.ops.size());
  for_each_execution(program, checked_turns, [&](OpId id, uint32_t iteration) {
    const Op& op = program.ops[id];
    for (OpId other : op.waits) builder.wait_latest(op.lane, other);
    builder.append(id, iteration, op.lane);
  });
  return builder.executions();
}

}  // namespace zrt::runtime
