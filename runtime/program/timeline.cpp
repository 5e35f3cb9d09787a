#include "runtime/program/timeline.h"

#include <algorithm>

namespace zrt::runtime {

bool TimelineBuilder::known(size_t earlier, uint8_t lane) const {
  const Execution& e = executions_[earlier];
  return e.lane == lane || lanes_[lane][e.lane] > e.index;
}

void TimelineBuilder::wait(uint8_t lane, size_t earlier) {
  if (known(earlier, lane)) return;  // with all that it knows itself
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

namespace {

constexpr uint32_t fewest_looked_at = 4;

// True where a segment that is not repeated touches a slot that a repeated one uses in a turn behind the fewest.
bool meets_late_turns(const ProgramSet& set, const Program& program) {
  std::vector<std::vector<uint8_t>> late(set.buffers.size());  // by buffer and slot
  const auto for_each_access = [&](bool repeated, auto visit) {
    for (const Segment& segment : program.segments) {
      if ((segment.repeat > 1) != repeated) continue;
      for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
        for (const Access& access : program.ops[id].accesses) visit(segment, access);
      }
    }
  };
  for_each_access(true, [&](const Segment& segment, const Access& access) {
    const Buffer& buffer = set.buffers[access.buffer];
    if (access.slot.step % buffer.slots == 0) return;
    late[access.buffer].resize(buffer.slots);
    for (uint32_t turn = fewest_looked_at; turn < segment.repeat; ++turn) {
      late[access.buffer][access.slot_of(buffer, turn)] = 1;
    }
  });
  bool meets = false;
  for_each_access(false, [&](const Segment&, const Access& access) {
    const std::vector<uint8_t>& slots = late[access.buffer];
    meets = meets || (!slots.empty() && slots[access.slot_of(set.buffers[access.buffer], 0)] != 0);
  });
  return meets;
}

}  // namespace

uint32_t checked_turns(const ProgramSet& set, const Program& program) {
  uint32_t microbatches = 0;
  for (const Segment& segment : program.segments) {
    for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
      microbatches = std::max(microbatches, program.ops[id].microbatch.at(segment.repeat - 1) + 1);
    }
  }
  const auto used_again = [&](const Access& access) {
    const Buffer& buffer = set.buffers[access.buffer];
    if (!buffer.slot_table.empty()) return access.slot.step != 0;
    return access.slot.step % buffer.slots != 0 && buffer.slots < microbatches;
  };
  uint32_t turns = fewest_looked_at;
  for (const Segment& segment : program.segments) {
    for (OpId id = segment.first; id < segment.first + segment.count && turns < segment.repeat; ++id) {
      const std::vector<Access>& accesses = program.ops[id].accesses;
      if (std::any_of(accesses.begin(), accesses.end(), used_again)) turns = segment.repeat;
    }
  }
  if (!meets_late_turns(set, program)) return turns;
  for (const Segment& segment : program.segments) turns = std::max(turns, segment.repeat);
  return turns;
}

std::vector<Execution> make_timeline(const ProgramSet& set, const Program& program) {
  TimelineBuilder builder(program.ops.size());
  // Waits name ops, not slots, so that slots that go round make no turn unlike the one before it.
  constexpr uint32_t most = 12;
  for_each_execution(program, std::min(most, checked_turns(set, program)), [&](OpId id, uint32_t iteration) {
    const Op& op = program.ops[id];
    for (OpId other : op.waits) builder.wait_latest(op.lane, other);
    builder.append(id, iteration, op.lane);
  });
  return builder.executions();
}

}  // namespace zrt::runtime
