// Breaks programs: ops dropped and swapped, waits that follow them.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/program/program.h"

namespace zrt::testing {

inline runtime::Program& program_of(runtime::ProgramSet& set, std::string_view phase) {
  return const_cast<runtime::Program&>(set.program(phase));
}

// The segment that holds an op.
inline runtime::Segment& segment_of(runtime::Program& program, runtime::OpId id) {
  return *std::find_if(program.segments.begin(), program.segments.end(), [&](const runtime::Segment& segment) {
    return id >= segment.first && id < segment.first + segment.count;
  });
}

inline void drop_op(runtime::Program& program, runtime::OpId id) {
  --segment_of(program, id).count;
  for (runtime::Segment& segment : program.segments) segment.first -= segment.first > id;
  program.ops.erase(program.ops.begin() + id);
  for (runtime::Op& op : program.ops) {
    std::erase(op.waits, id);
    for (runtime::OpId& wait : op.waits) wait -= wait > id;
  }
}

// Waits say what the lane of an op says of it: it may leave the lane, or the program, and no order among the others is
// lost. A wait means the latest execution so far, as a lane does.
inline void order_by_waits(runtime::Program& program, runtime::OpId id) {
  runtime::Op& op = program.ops[id];
  std::vector<runtime::OpId> lane;
  for (runtime::OpId other = 0; other < program.ops.size(); ++other) {
    if (other != id && program.ops[other].lane == op.lane) lane.push_back(other);
  }
  op.waits.insert(op.waits.end(), lane.begin(), lane.end());
  for (runtime::OpId other : lane) program.ops[other].waits.push_back(id);
  for (runtime::OpId other = 0; other < program.ops.size(); ++other) {
    std::vector<runtime::OpId>& waits = program.ops[other].waits;
    if (other == id || std::find(waits.begin(), waits.end(), id) == waits.end()) continue;
    waits.insert(waits.end(), op.waits.begin(), op.waits.end());
    std::erase(waits, other);
  }
}

// The ops change places; waits still mean the same ops.
inline void swap_ops(runtime::Program& program, runtime::OpId a, runtime::OpId b) {
  std::swap(program.ops[a], program.ops[b]);
  for (runtime::Op& op : program.ops) {
    for (runtime::OpId& wait : op.waits) wait = wait == a ? b : wait == b ? a : wait;
  }
}

// Inserts a copy of `op` in front of the op at `position`; waits still mean the same ops.
inline void insert_op(runtime::Program& program, runtime::OpId position, runtime::Op op) {
  runtime::Segment& segment = segment_of(program, position);
  for (runtime::Segment& other : program.segments) other.first += other.first > position;
  ++segment.count;
  auto shift = [&](runtime::Op& of) {
    for (runtime::OpId& wait : of.waits) wait += wait >= position;
  };
  shift(op);
  for (runtime::Op& other : program.ops) shift(other);
  program.ops.insert(program.ops.begin() + position, std::move(op));
}

// The op goes to another position of its segment; those between move up or down, waits still mean the same ops.
inline void move_op(runtime::Program& program, runtime::OpId from, runtime::OpId to) {
  for (; from < to; ++from) swap_ops(program, from, from + 1);
  for (; from > to; --from) swap_ops(program, from, from - 1);
}

inline runtime::OpId find_op(const runtime::Program& program, std::string_view name) {
  for (runtime::OpId id = 0; id < program.ops.size(); ++id) {
    if (program.ops[id].name == name) return id;
  }
  throw std::runtime_error("there is no op " + std::string(name));
}

}  // namespace zrt::testing
