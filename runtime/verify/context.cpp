#include "runtime/verify/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "runtime/ops/spec.h"
#include "runtime/verify/contents.h"
#include "runtime/verify/operand.h"

namespace zrt::runtime::verification {
namespace {

bool names(const Op& op, BufferId buffer) {
  return std::any_of(op.accesses.begin(), op.accesses.end(),
                     [&](const Access& access) { return access.buffer == buffer; });
}

// The nearest ops in front of a place and behind it that `shares` holds for, in program order.
struct Nearest {
  std::vector<const Op*> front, behind;
  bool none() const { return front.empty() && behind.empty(); }
};
Nearest nearest(const FaultPlace& place, const std::function<bool(const Op&)>& shares) {
  const Program& program = *place.program;
  const Op* here = place.at.known() ? &program.ops[place.at.op] : nullptr;
  Nearest found;
  bool passed = false;
  for_each_execution(program, ~0u, [&](OpId id, uint32_t turn) {
    passed = passed || (id == place.at.op && turn == place.at.turn);
    const Op& op = program.ops[id];
    if ((here && op.name == here->name) || !shares(op)) return;
    std::vector<const Op*>& side = passed ? found.behind : found.front;
    if (passed && !side.empty()) return;
    std::erase_if(side, [&](const Op* other) { return other->name == op.name; });
    side.push_back(&op);
    if (side.size() > 2) side.erase(side.begin());
  });
  return found;
}

}  // namespace

std::string neighbours(const ProgramSet& set, const FaultPlace& place, std::optional<uint8_t> lane) {
  const Program& program = *place.program;
  if (program.ops.empty()) return "none: the program is empty";
  const Op& here = place.at.known() ? program.ops[place.at.op] : program.ops.back();
  Nearest found = nearest(place, [&](const Op& op) {
    return (place.buffer < set.buffers.size() && names(op, place.buffer)) ||
           std::find(op.units.begin(), op.units.end(), place.unit) != op.units.end();
  });
  if (found.none()) found = nearest(place, [&](const Op& op) { return op.lane == lane.value_or(here.lane); });
  if (found.none()) found = nearest(place, [](const Op&) { return true; });
  const auto text = [](const std::vector<const Op*>& ops, const char* where) {
    std::vector<std::string> all;
    for (const Op* op : ops) all.push_back(fmt::format("'{}'", op->name));
    return all.empty() ? fmt::format("none {}", where) : fmt::format("{} {}", fmt::join(all, " and "), where);
  };
  return fmt::format("{}, {}", text(found.front, "in front"), text(found.behind, "behind"));
}

std::string context(const ProgramSet& set, const Layout& layout, const FaultPlace& place) {
  const FaultPlace known = completed(set, layout, place);
  if (!known.program) return "";
  return fmt::format("\nOperand: {}. Neighbours: {}.", operand(set, layout, known), neighbours(set, known));
}

}  // namespace zrt::runtime::verification
