#include "runtime/verify/operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "runtime/ops/spec.h"
#include "runtime/verify/borders.h"
#include "runtime/verify/contents.h"

namespace zrt::runtime::verification {
namespace {

std::string axes_text(Axes axes) {
  std::vector<std::string> parts;
  if (data_axes.within(axes)) parts.emplace_back("data"), axes = axes.without(data_axes);
  if (axes.has(Axis::inner) && axes.has(Axis::outer)) {
    parts.emplace_back("ranks with the same experts"), axes = axes.without(core::expert_data_axes);
  }
  for (int a = 0; a < core::axis_count; ++a) {
    if (axes.has(a)) parts.emplace_back(core::axis_facts[a].name);
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

// An access of an op and what it means. Nothing about the op has been checked yet.
class Meaning {
 public:
  Meaning(const ProgramSet& set, const Layout& layout, const Op& op) : set_(set), layout_(layout), op_(op) {}

  // Calls visit(access, unit): none where it is of no unit.
  void for_each(const std::function<void(const Access&, uint32_t)>& visit) const {
    std::array<size_t, role_count> seen{};
    for (const Access& access : op_.accesses)
      visit(access, unit(access.role, seen[static_cast<size_t>(access.role)]++));
  }

  // "summed over data (group 'dp'), then tensor (group 'tp')"; empty where no other rank has a part in it.
  std::string combined(const Access& access, uint32_t unit) const {
    switch (access.role) {
      case Role::local_grad:
      case Role::grad:
        return summed(unit);
      case Role::full_state:
      case Role::partial:
        if (op_.kind == OpKind::reduce_grad || op_.kind == OpKind::gather_grad) return summed(unit);
        return gathered(unit);
      case Role::all_parts:
        return unit == none ? "" : joined("gathered over ", {over(layout_.units.units[unit].part_axes())});
      case Role::weight:
      case Role::master:
      case Role::state:
        return gathered(unit);
      case Role::sums:
      case Role::proposal:
      case Role::refined:
        return unit == none ? "" : joined("exchanged over ", {over(layout_.units.units[unit].holder_axes)});
      case Role::control:
      case Role::shares:
        return joined("shared over ", {over(layout_.mesh.everyone())});
      case Role::port:
      case Role::d_port:
        return exchanged(access.port);
      case Role::input:
      case Role::output:
      case Role::d_input:
      case Role::d_output:
        return sent(access.role);
      default:
        return "";
    }
  }

  std::string gathered(uint32_t unit) const {
    return unit == none ? "" : joined("gathered over ", {over(layout_.units.units[unit].shard_axes)});
  }
  std::string summed(uint32_t unit) const {
    if (unit == none) return "";
    const optimizer::Unit& of = layout_.units.units[unit];
    return joined(
        "summed over ",
        {over(of.shard_axes), over(of.replica_axes().without(of.shard_axes)), over(of.gradient_axes.without(data_axes)),
         of.copied ? over_pair("the stages that have copies", copies_group(of.of_layers)) : ""});
  }

 private:
  uint32_t unit(Role role, size_t nth) const {
    switch (role) {
      case Role::weight:
      case Role::local_grad:
      case Role::grad:
      case Role::master:
      case Role::state:
      case Role::sums:
      case Role::full_state:
      case Role::all_parts:
      case Role::partial:
      case Role::proposal:
      case Role::refined:
      case Role::copied:
      case Role::copy:
        break;
      default:
        return none;
    }
    if (op_.units.empty()) return none;
    const uint32_t named = op_.units[op_.units.size() == 1 ? 0 : std::min(nth, op_.units.size() - 1)];
    return named < layout_.units.units.size() ? named : none;
  }

  static std::string joined(const char* how, std::vector<std::string> all) {
    std::erase(all, "");
    return all.empty() ? "" : fmt::format("{}{}", how, fmt::join(all, ", then "));
  }

  std::string over(Axes axes) const {
    if (axes == Axes() || layout_.mesh.degree(axes) == 1) return "";
    const auto group =
        std::find_if(set_.groups.begin(), set_.groups.end(), [&](const Group& known) { return known.axes == axes; });
    const std::string group_name = group == set_.groups.end() ? "none" : group->name;
    const bool levels = axes == data_axes && (layout_.groups.hierarchical || layout_.groups.secondary);
    return fmt::format("{} (group '{}'{})", axes_text(axes), group_name,
                       levels ? ", or on two levels 'dp.inner' and 'dp.outer'" : "");
  }
  static std::string over_pair(const char* what, std::string_view group) {
    return fmt::format("{} (group '{}')", what, group);
  }

  std::string exchanged(size_t port) const {
    if (op_.block >= layout_.model->blocks.size()) return "";
    const auto& ports = layout_.model->blocks[op_.block]->anatomy().ports;
    return port < ports.size() ? joined("exchanged over ", {over(ports[port].seam.axis)}) : "";
  }

  // Says between which ranks it goes over a border of the stage; ranks that share blocks bring what came from there
  // together.
  std::string sent(Role role) const {
    const bool before = role == Role::input || role == Role::d_input;
    if (op_.block >= layout_.model->blocks.size()) return "";
    if (!(before ? layout_.model->receives(op_.block) : layout_.model->sends(op_.block))) return "";
    const bool comes = role == Role::input || role == Role::d_output;
    const std::string link = over_pair("two stages", border_link(layout_, role));
    return joined("handed over between ", {link, comes && !layout_.shares_rows() ? over(Axis::tensor) : ""});
  }

  const ProgramSet& set_;
  const Layout& layout_;
  const Op& op_;
};

// Calls visit(program, op id) for every op of the set, until it says that it has found what it looks for.
void search(const ProgramSet& set, const std::function<bool(const Program&, OpId)>& found) {
  for (const Program& program : set.programs) {
    for (OpId id = 0; id < program.ops.size(); ++id) {
      if (found(program, id)) return;
    }
  }
}

std::string combined(const ProgramSet& set, const Layout& layout, const FaultPlace& place) {
  std::string ways;
  const auto look = [&](const Op& op) {
    const Meaning meaning(set, layout, op);
    meaning.for_each([&](const Access& access, uint32_t unit) {
      if (access.buffer == place.buffer && ways.empty()) ways = meaning.combined(access, unit);
    });
    return !ways.empty();
  };
  if (place.at.known() && look(place.program->ops[place.at.op])) return ways;
  search(set, [&](const Program& program, OpId id) { return look(program.ops[id]); });
  if (!ways.empty() || place.unit == none) return ways;
  const Op no_op;
  const Meaning meaning(set, layout, no_op);
  const std::string gathered = meaning.gathered(place.unit), summed = meaning.summed(place.unit);
  if (summed.empty() || !layout.units.units[place.unit].trained) return gathered;
  const std::string weights = gathered.empty() ? "" : fmt::format("its weights {}, ", gathered);
  return fmt::format("{}its gradient {}", weights, summed);
}

}  // namespace

FaultPlace completed(const ProgramSet& set, const Layout& layout, FaultPlace place) {
  if (!place.program) {
    search(set, [&](const Program& program, OpId id) {
      const Op& op = program.ops[id];
      const bool shares = std::find(op.units.begin(), op.units.end(), place.unit) != op.units.end() ||
                          std::any_of(op.accesses.begin(), op.accesses.end(),
                                      [&](const Access& access) { return access.buffer == place.buffer; });
      if (shares) place.program = &program, place.at = {id, 0};
      return shares;
    });
  }
  if (!place.program) return place;
  const auto take = [&](const Op& op, bool any) {
    const Meaning meaning(set, layout, op);
    meaning.for_each([&](const Access& access, uint32_t unit) {
      if (place.buffer == no_buffer && access.buffer < set.buffers.size()) {
        const bool changed = !spec(op.kind).communicates() || access.use != Use::read;
        const bool combined = changed && !meaning.combined(access, unit).empty();
        const bool meant = place.unit == none ? any || combined : unit == place.unit;
        if (meant) place.buffer = access.buffer;
      }
      if (place.buffer == access.buffer && place.unit == none) place.unit = unit;
    });
  };
  if (place.at.known()) {
    take(place.program->ops[place.at.op], false);
    take(place.program->ops[place.at.op], true);
  }
  if (place.unit == none && place.buffer != no_buffer) {
    search(set, [&](const Program& program, OpId id) {
      take(program.ops[id], false);
      return place.unit != none;
    });
  }
  return place;
}

std::string operand(const ProgramSet& set, const Layout& layout, const FaultPlace& place) {
  std::vector<std::string> names;
  if (place.buffer < set.buffers.size()) names.push_back(fmt::format("'{}'", set.buffers[place.buffer].name));
  if (place.unit < layout.units.units.size())
    names.push_back(fmt::format("unit '{}'", layout.units.units[place.unit].name));
  if (names.empty()) names.push_back(fmt::format("all of the program '{}'", place.program->phase));
  const std::string ways = combined(set, layout, place);
  return fmt::format("{}, {}", fmt::join(names, " of "), ways.empty() ? "which no other rank has a part in" : ways);
}

}  // namespace zrt::runtime::verification
