#include "runtime/verify/execution.h"

#include <fmt/format.h>

#include <algorithm>

namespace zrt::runtime::verification {

std::string name(const Program& program, Execution execution) {
  if (!execution.known()) return "the program before";
  return fmt::format("'{}' (turn {})", program.ops[execution.op].name, execution.turn);
}

Execution on_lane(const Program& program, uint8_t lane, uint32_t index) {
  Execution found;
  uint32_t seen = 0;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
    if (program.ops[id].lane == lane && seen++ == index) found = {id, turn};
  });
  return found;
}

Execution before(const Program& program, Execution execution) {
  Execution related, previous;
  bool reached = false;
  const auto& units = program.ops[execution.op].units;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
    reached = reached || (id == execution.op && turn == execution.turn);
    if (reached) return;
    previous = {id, turn};
    const auto& theirs = program.ops[id].units;
    const bool shared = std::any_of(theirs.begin(), theirs.end(), [&](uint32_t u) {
      return std::find(units.begin(), units.end(), u) != units.end();
    });
    if (shared) related = previous;
  });
  return related.known() ? related : previous;
}

std::string other_user(const ProgramSet& set, const Op& op, BufferId buffer) {
  for (const Program& program : set.programs) {
    for (const Op& other : program.ops) {
      const bool uses = std::any_of(other.accesses.begin(), other.accesses.end(),
                                    [&](const Access& access) { return access.buffer == buffer; });
      if (uses && other.name != op.name) return fmt::format("; '{}' uses it too", other.name);
    }
  }
  return "";
}

}  // namespace zrt::runtime::verification
