// The ranks that a collective goes among: those of axes that its units name, or all.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "runtime/ops/spec.h"
#include "runtime/verify/checks.h"
#include "runtime/verify/contents.h"

namespace zrt::runtime::verification {
namespace {

// On two levels a partial buffer lies between the ranks of an island and the islands.
std::optional<Use> use_of_partial(const Op& op) {
  for (const Access& access : op.accesses) {
    if (access.role == Role::partial) return access.use;
  }
  return std::nullopt;
}

// The sets of axes that an op may have for a unit; empty: any.
std::vector<Axes> axes_of(const Op& op, const optimizer::Unit& unit) {
  const std::optional<Use> partial = use_of_partial(op);
  if (gathers(op.kind)) {
    if (!partial) return {unit.shard_axes};
    return {partial == Use::write ? Axis::outer : Axis::inner};
  }
  switch (op.kind) {
    case OpKind::share_sums:
    case OpKind::collect:
    case OpKind::hand_out:
      return {unit.holder_axes};
    case OpKind::reduce_grad: {
      if (partial) return {partial == Use::write ? Axis::inner : Axis::outer};
      std::vector<Axes> all{unit.shard_axes};
      for (const Axes others : {data_axes.without(unit.shard_axes), unit.gradient_axes.without(data_axes)}) {
        if (others != Axes()) all.push_back(others);
      }
      if (unit.copied) all.emplace_back(Axis::pipeline);
      return all;
    }
    default:
      return {};
  }
}

void require(const ProgramSet& set, const Program& program, OpId id, const std::string& what,
             const std::vector<Axes>& legal) {
  const Op& op = program.ops[id];
  const Group& group = set.group(op);
  if (legal.empty() || std::find(legal.begin(), legal.end(), group.axes) != legal.end()) return;
  const auto needed = std::find_if(set.groups.begin(), set.groups.end(),
                                   [&](const Group& known) { return known.axes == legal.front(); });
  throw core::ProgramError(fmt::format(
      "op '{}' ({}) of '{}' goes among the ranks of group {}, but {} needs those of group {}; it follows {}", op.name,
      op_kind_name(op.kind), program.phase, group.name, what, needed == set.groups.end() ? "none" : needed->name,
      name(program, before(program, {id, 0}))));
}

}  // namespace

void check_groups(const ProgramSet& set, const Program& program, const Layout& layout) {
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (!spec(op.kind).communicates()) continue;
    if (op.kind == OpKind::share_control) {
      require(set, program, id, "what all ranks decide by", {layout.mesh.everyone()});
    }
    for (uint32_t u : op.units) {
      const optimizer::Unit& unit = layout.units.units[u];
      require(set, program, id, fmt::format("'{}'", unit.name), axes_of(op, unit));
    }
  }
}

}  // namespace zrt::runtime::verification
