#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/ops/spec.h"
#include "runtime/program/timeline.h"
#include "runtime/verify/checks.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {
namespace {

bool communicates(OpKind kind) {
  return spec(kind).communicates();
}

// The neighbour of an op on its lane, or else in its program, for messages about an op that is at the wrong place.
std::string neighbour(const Program& program, OpId id) {
  for (OpId other = id; other-- > 0;) {
    if (program.ops[other].lane == program.ops[id].lane) return fmt::format("behind '{}'", program.ops[other].name);
  }
  for (OpId other = id + 1; other < program.ops.size(); ++other) {
    if (program.ops[other].lane == program.ops[id].lane) return fmt::format("before '{}'", program.ops[other].name);
  }
  if (program.ops.size() == 1) return "alone in it";
  return fmt::format("alone, its program {} '{}'", id > 0 ? "behind" : "before", program.ops[id > 0 ? id - 1 : 1].name);
}

// True where an op adds to gradients or defines them; the first of two levels of a reduction always defines, and one in
// place between groups with equal shards does neither.
bool adds_up(const ProgramSet& set, const Op& op) {
  if (op.kind == OpKind::backward) return op.makes_gradients();
  if (op.kind != OpKind::reduce_grad) return false;
  const bool partial = std::any_of(op.accesses.begin(), op.accesses.end(),
                                   [](const Access& access) { return access.role == Role::partial; });
  const Axes group = set.group(op).axes;
  if (!group.within(data_axes)) return false;
  return group == data_axes || (group == outer_axes) == partial;
}

bool is_measured(const models::Anatomy& anatomy, const Op& op) {
  return op.port < anatomy.ports.size() && anatomy.ports[op.port].used_by != models::Port::all_used;
}

// Says that an exchange names a port and the one that says what of it is used, in this order.
bool measures(const models::Anatomy& anatomy, const Op& op) {
  if (op.accesses.size() != 2 || op.accesses[0].role != op.accesses[1].role) return false;
  return op.accesses[0].use == Use::update && op.accesses[0].port == op.port && op.accesses[1].use == Use::read &&
         op.accesses[1].port == anatomy.ports[op.port].used_by;
}

// A lane is one queue in front of one communicator or one kind of engine.
void check_lane(const ProgramSet& set, const Program& program, OpId id) {
  const Op& op = program.ops[id];
  const Lane& lane = set.lanes[op.lane];
  const bool comm = lane.kind == LaneKind::comm;
  const bool legal = communicates(op.kind) ? comm && lane.group == set.group(op).name
                     : runs_block(op.kind) ? lane.kind == LaneKind::compute
                                           : !comm;
  if (legal) return;
  throw Fault({&program, {id, 0}},
              fmt::format("program '{}': op '{}' ({}) is on lane {} {}; it belongs on {}", program.phase, op.name,
                          op_kind_name(op.kind), lane.name(), neighbour(program, id),
                          communicates(op.kind) ? fmt::format("lane comm:{}", set.group(op).name)
                          : runs_block(op.kind) ? "lane compute"
                                                : "a lane that does not communicate"));
}

// Counts the units of an op that have gradients: they stand first.
size_t with_gradients(const Op& op, const Layout& layout) {
  return runs_block(op.kind) ? layout.units.trained(op.units) : op.units.size();
}

void check_units(const ProgramSet& set, const Program& program, OpId id, const Layout& layout) {
  const Op& op = program.ops[id];
  for (uint32_t u : op.units) {
    if (u < layout.units.units.size()) continue;
    throw Fault({&program, {id, 0}}, fmt::format("op '{}' of '{}' uses unit {} of {}", op.name, program.phase, u,
                                                 layout.units.units.size()));
  }
  const bool of_shard = op.shard_bytes > 0 || op.kind == OpKind::update || op.kind == OpKind::propose ||
                        spec(op.kind).type == logical_type;
  if (of_shard && op.units.empty()) {
    throw Fault({&program, {id, 0}}, fmt::format("op '{}' ({}) of '{}', {}, names no unit that it works on", op.name,
                                                 op_kind_name(op.kind), program.phase, neighbour(program, id)));
  }
  // A step only reads what is frozen; a block's own gradients leave it out.
  const auto frozen =
      std::find_if(op.units.begin(), op.units.end(), [&](uint32_t u) { return !layout.units.units[u].trained; });
  const auto& phases = spec(op.kind).phases;
  const bool trains = !phases.empty() && std::all_of(phases.begin(), phases.end(), [](std::string_view phase) {
    return phase == "step" || phase == "update";
  });
  const bool changes = trains && !runs_block(op.kind);
  if (changes && frozen != op.units.end()) {
    throw Fault(
        {&program, {id, 0}},
        fmt::format("op '{}' ({}) of '{}', {}, is of '{}', which is frozen: it has weights and nothing else", op.name,
                    op_kind_name(op.kind), program.phase, neighbour(program, id), layout.units.units[*frozen].name));
  }
  const size_t trained = with_gradients(op, layout);
  if (adds_up(set, op) && op.accumulate.size() != trained) {
    throw Fault({&program, {id, 0}},
                fmt::format("op '{}' of '{}', {}, says of {} of its {} units whether it adds to the gradient", op.name,
                            program.phase, neighbour(program, id), op.accumulate.size(), trained));
  }
  if (op.kind == OpKind::update && !op.units.empty()) {
    const bool refined = layout.optimizer->refines(layout.units.units[op.units[0]].group);
    const Role from = refined ? Role::proposal : Role::grad;
    const auto named = std::count_if(op.accesses.begin(), op.accesses.end(),
                                     [&](const Access& access) { return access.role == from; });
    if (named != 1) {
      throw Fault({&program, {id, 0}},
                  fmt::format("op '{}' (update) of '{}' names {} buffers as its {}, for 1 units; it needs 1", op.name,
                              program.phase, named, role_name(from)));
    }
  }
  // Messages of rows of which not all are used are exchanged by what says so.
  const bool measured = op.kind == OpKind::exchange && op.block < layout.model->blocks.size() &&
                        is_measured(layout.model->blocks[op.block]->anatomy(), op);
  if (measured && !measures(layout.model->blocks[op.block]->anatomy(), op)) {
    throw Fault(
        {&program, {id, 0}},
        fmt::format("op '{}' ({}) of '{}', {}, names {} buffers; it needs one, and the one that says which of its "
                    "rows are used",
                    op.name, op_kind_name(op.kind), program.phase, neighbour(program, id), op.accesses.size()));
  }
  const bool one_buffer = op.kind == OpKind::exchange || op.kind == OpKind::send || op.kind == OpKind::receive;
  if (one_buffer && !measured && op.accesses.size() != 1) {
    throw Fault({&program, {id, 0}},
                fmt::format("op '{}' ({}) of '{}', {}, names {} buffers; it needs one, or a gradient of one", op.name,
                            op_kind_name(op.kind), program.phase, neighbour(program, id), op.accesses.size()));
  }
  if (spec(op.kind).of_microbatch) {
    if (op.block >= layout.model->blocks.size())
      throw Fault({&program, {id, 0}},
                  fmt::format("op '{}' is of block {} of {}", op.name, op.block, layout.model->blocks.size()));
  }
  if (runs_block(op.kind) && op.units != layout.units.blocks[op.block]) {
    throw Fault({&program, {id, 0}}, fmt::format("op '{}' of '{}' does not use the units of block '{}'", op.name,
                                                 program.phase, layout.model->blocks[op.block]->name()));
  }
}

std::pair<size_t, size_t> legal(Count count, size_t units) {
  switch (count) {
    case Count::one:
      return {1, 1};
    case Count::optional:
      return {0, 1};
    case Count::two:
      return {2, 2};
    case Count::each_unit:
      return {units, units};
    case Count::some_units:
      return {0, units};
    case Count::any:
      break;
  }
  return {0, ~size_t{0}};
}

// An op names what its kind works on, as often as that takes, and touches it as it may.
void check_operands(const Program& program, OpId id, const Layout& layout) {
  const Op& op = program.ops[id];
  const OpSpec& row = spec(op.kind);
  std::array<size_t, role_count> found{};
  for (const Access& access : op.accesses) {
    ++found[static_cast<size_t>(access.role)];
    const auto operand = std::find_if(row.operands.begin(), row.operands.end(),
                                      [&](const Operand& known) { return known.role == access.role; });
    const bool known = operand != row.operands.end();
    if (known && (operand->uses & 1 << static_cast<int>(access.use)) != 0) continue;
    constexpr std::array<std::string_view, 3> uses{"reads", "writes", "updates"};
    throw Fault({&program, {id, 0}},
                fmt::format("op '{}' ({}) of '{}', {}, {} a buffer as its {}, which such an op {}", op.name, row.name,
                            program.phase, neighbour(program, id), uses[static_cast<size_t>(access.use)],
                            role_name(access.role), known ? "does not do" : "does not have"));
  }
  for (const Operand& operand : row.operands) {
    // Gradients of parameters are those of the weight half, which makes them of what the other has held.
    const bool none = (op.half == models::Half::weight && operand.role == Role::weight) ||
                      (op.half == models::Half::input && operand.role == Role::local_grad);
    const size_t units = operand.role == Role::local_grad ? with_gradients(op, layout) : op.units.size();
    const auto [least, most] = none ? std::pair<size_t, size_t>{0, 0} : legal(operand.count, units);
    const size_t count = found[static_cast<size_t>(operand.role)];
    if (least <= count && count <= most) continue;
    throw Fault({&program, {id, 0}},
                fmt::format("op '{}' ({}) of '{}', {}, names {} buffers as its {}, for {} units; it needs {}", op.name,
                            row.name, program.phase, neighbour(program, id), count, role_name(operand.role), units,
                            least == most ? fmt::format("{}", least) : fmt::format("at most {}", most)));
  }
}

void check_phase(const Program& program, OpId id) {
  const Op& op = program.ops[id];
  const auto& phases = spec(op.kind).phases;
  if (phases.empty() || std::find(phases.begin(), phases.end(), program.phase) != phases.end()) return;
  throw Fault({&program, {id, 0}},
              fmt::format("op '{}' ({}), {}, has no place in the program '{}'; it may stand in {}", op.name,
                          op_kind_name(op.kind), neighbour(program, id), program.phase, fmt::join(phases, ", ")));
}

}  // namespace

void check_references(const ProgramSet& set, const Program& program, const Layout& layout) {
  if (set.lanes.size() > max_lanes)
    throw Fault({}, fmt::format("a program set has {} lanes; at most {} are legal", set.lanes.size(), max_lanes));
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (op.lane >= set.lanes.size())
      throw Fault({&program, {id, 0}},
                  fmt::format("op '{}' runs on lane {} of {}", op.name, op.lane, set.lanes.size()));
    if (spec(op.kind).communicates() && op.group >= set.groups.size())
      throw Fault({&program, {id, 0}},
                  fmt::format("op '{}' is of group {} of {}", op.name, op.group, set.groups.size()));
    for (OpId other : op.waits) {
      if (other < program.ops.size()) continue;
      throw Fault({&program, {id, 0}},
                  fmt::format("op '{}' waits for op {} of {}", op.name, other, program.ops.size()));
    }
    for (const Access& access : op.accesses) {
      if (access.buffer < set.buffers.size()) continue;
      throw Fault({&program, {id, 0}},
                  fmt::format("op '{}' uses buffer {} of {}", op.name, access.buffer, set.buffers.size()));
    }
    check_units(set, program, id, layout);
    check_operands(program, id, layout);
    check_phase(program, id);
    check_lane(set, program, id);
  }
  const bool tables = std::any_of(set.buffers.begin(), set.buffers.end(),
                                  [](const Buffer& buffer) { return !buffer.slot_table.empty(); });
  for_each_execution(program, tables ? ~0u : 1, [&](OpId id, uint32_t turn) {
    const Op& op = program.ops[id];
    for (const Access& access : op.accesses) {
      const Buffer& buffer = set.buffers[access.buffer];
      const std::vector<uint32_t>& table = buffer.slot_table;
      uint32_t slot = std::max(access.slot.first, access.slot.step);
      if (!table.empty()) slot = access.slot.at(turn) < table.size() ? table[access.slot.at(turn)] : buffer.slots;
      if (slot < buffer.slots) continue;
      throw Fault(
          {&program, {id, turn}, access.buffer},
          fmt::format("program '{}' is not safe: '{}' uses buffer '{}' but slot {} of {} does not exist{}",
                      program.phase, op.name, buffer.name, slot, buffer.slots, other_user(set, op, access.buffer)));
    }
  });
}

}  // namespace zrt::runtime::verification
