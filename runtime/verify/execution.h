// Executions of a program and their names in messages.
#pragma once
#include <string>

#include "runtime/program/program.h"

namespace zrt::runtime::verification {

struct Execution {
  OpId op = ~0u;
  uint32_t turn = 0;  // of its segment
  bool known() const { return op != ~0u; }
  bool operator==(const Execution&) const = default;
};

// "'forward h.3' (turn 2)"; "the program before" for an execution that is not known.
std::string name(const Program& program, Execution execution);

// The nth execution on a lane.
Execution on_lane(const Program& program, uint8_t lane, uint32_t index);

// Returns what an op that lacks something follows: the latest execution before it that shares a unit, else the one
// before it in program order. An unknown execution when it is the first.
Execution before(const Program& program, Execution execution);

// "; 'backward h.3' uses it too": another op than `op`, of any program, that uses a buffer. Empty when none does.
std::string other_user(const ProgramSet& set, const Op& op, BufferId buffer);

}  // namespace zrt::runtime::verification
