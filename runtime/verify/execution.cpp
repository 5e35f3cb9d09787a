#include "runtime/verify/execution.h"

#include <fmt/format.h>

#include <algorithm>

namespace zrt::runtime::verification {

std::string name(const Program& program, Execution place) {
  if (!place.known()) return "the program before";
  return fmt::format("'{}' (turn {})", program.ops[place.op].name, place.turn);
}

Execution on_lane(const Program& program, uint8_t lane, uint32_t index) {
  Execution found;
  uint32_t seen = 0;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
    if (program.ops[id].lane == lane && seen++ == index) found = {id, turn};
  });
  return found;
}

Execution before(const Program& program, Execution place) {
  Execution related, previous;
  bool reached = false;
  const auto& units = program.ops[place.op].units;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
    reached = reached || (id == place.op && turn == place.turn);
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
