// The ranks that a collective goes among: those of axes that its units name, or all.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "runtime/ops/spec.h"
#include "runtime/verify/borders.h"
#include "runtime/verify/checks.h"
#include "runtime/verify/contents.h"
#include "runtime/verify/fault.h"

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
    return {partial == Use::write ? outer_axes : island_axes};
  }
  switch (op.kind) {
    case OpKind::share_sums:
    case OpKind::collect:
    case OpKind::hand_out:
      return {unit.holder_axes};
    case OpKind::reduce_grad: {
      if (partial) return {partial == Use::write ? island_axes : outer_axes};
      std::vector<Axes> all{unit.shard_axes};
      for (const Axes others : {unit.replica_axes().without(unit.shard_axes), unit.gradient_axes.without(data_axes)}) {
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
             const std::vector<Axes>& legal, uint32_t unit = none) {
  const Op& op = program.ops[id];
  const Group& group = set.group(op);
  if (legal.empty() || std::find(legal.begin(), legal.end(), group.axes) != legal.end()) return;
  const auto needed = std::find_if(set.groups.begin(), set.groups.end(),
                                   [&](const Group& known) { return known.axes == legal.front(); });
  throw Fault(
      {&program, {id, 0}, no_buffer, unit},
      fmt::format(
          "op '{}' ({}) of '{}' goes among the ranks of group {}, but {} needs those of group {}; it follows {}",
          op.name, op_kind_name(op.kind), program.phase, group.name, what,
          needed == set.groups.end() ? "none" : needed->name, name(program, before(program, {id, 0}))));
}

// A transfer over a border of the stage goes to the pair that meets there, and gradients of copied parameters are added
// up by the stages that have the copies. These groups have the same axes, so that only their names tell them apart.
void check_pair(const ProgramSet& set, const Program& program, OpId id, const Layout& layout) {
  const Op& op = program.ops[id];
  const Group& group = set.group(op);
  std::string_view needed = group.name;
  if (op.kind == OpKind::send || op.kind == OpKind::receive) needed = border_link(layout, op.accesses.front().role);
  if (op.kind == OpKind::reduce_grad && group.axes == Axis::pipeline) {
    needed = copies_group(layout.units.units[op.units.front()].of_layers);
  }
  if (group.name == needed) return;
  const BufferId buffer = op.accesses.front().buffer;
  throw Fault(
      {&program, {id, 0}, buffer},
      fmt::format(
          "op '{}' ({}) of '{}' goes among the ranks of group {}, but '{}' needs those of group {}; it follows {}",
          op.name, op_kind_name(op.kind), program.phase, group.name, set.buffers[buffer].name, needed,
          name(program, before(program, {id, 0}))));
}

// Ranks of one place in pairs of stages; else those that differ along the group's axes.
RankGroups ranks_of(const Group& group, const Layout& layout) {
  const Mesh& mesh = layout.mesh;
  if (group.axes != Axis::pipeline) return mesh.groups(group.axes);
  for (const bool forward : {false, true}) {
    for (const bool odd : {false, true}) {
      if (group.name == link_name(odd, forward)) return mesh.neighbours(odd);
    }
  }
  return group.name == layers_name ? mesh.stages_together(layout.stage.sharing) : mesh.ends();
}

void check_ranks(const ProgramSet& set, const Program& program, OpId id, const Layout& layout) {
  const Group& group = set.group(program.ops[id]);
  const RankGroups is = group.ranks, needed = ranks_of(group, layout);
  if (is.size == needed.size && is.stride == needed.stride && is.first == needed.first) return;
  throw Fault({&program, {id, 0}},
              fmt::format("op '{}' ({}) of '{}' goes among {} ranks, one in {}, of group {}, whose axes have {}, one "
                          "in {}; it follows {}",
                          program.ops[id].name, op_kind_name(program.ops[id].kind), program.phase, is.size, is.stride,
                          group.name, needed.size, needed.stride, name(program, before(program, {id, 0}))));
}

// Units name the axes that their parameters ask for.
void check_axes(const Layout& layout) {
  for (uint32_t u = 0; u < layout.units.units.size(); ++u) {
    const optimizer::Unit& unit = layout.units.units[u];
    bool sliced = false, summed = false, spread = false;
    for (const optimizer::UnitParam& place : unit.params) {
      sliced = sliced || place.param->slice.has_value();
      summed = summed || (unit.trained && place.param->summed);
      spread = spread || place.param->spread.has_value();
    }
    const Axes copies = spread ? core::expert_data_axes : data_axes;  // have the same tensors
    const Axes holders = sliced ? unit.shard_axes | Axis::tensor : unit.shard_axes;
    const Axes makers = summed ? copies | Axis::tensor : copies;
    const bool own = layout.units.cut.shard_axes == data_axes ? unit.shard_axes == copies : !spread;
    if (own && unit.holder_axes == holders && unit.gradient_axes == makers) continue;
    throw Fault({nullptr, {}, no_buffer, u},
                fmt::format("unit '{}' names other axes for the ranks that {} than its parameters ask for", unit.name,
                            unit.holder_axes == holders ? "add up its gradient" : "hold its tensors"));
  }
}

}  // namespace

void check_groups(const ProgramSet& set, const Program& program, const Layout& layout) {
  check_axes(layout);
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (!spec(op.kind).communicates()) continue;
    check_pair(set, program, id, layout);
    check_ranks(set, program, id, layout);
    if (op.kind == OpKind::share_control) {
      require(set, program, id, "what all ranks decide by", {layout.mesh.everyone()});
    }
    for (uint32_t u : op.units) {
      const optimizer::Unit& unit = layout.units.units[u];
      require(set, program, id, fmt::format("'{}'", unit.name), axes_of(op, unit), u);
    }
  }
}

}  // namespace zrt::runtime::verification
