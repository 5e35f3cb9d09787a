#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "runtime/program/timeline.h"
#include "runtime/verify/checks.h"
#include "runtime/verify/place.h"

namespace zrt::runtime::verification {
namespace {

using core::ProgramError;

bool communicates(OpKind kind) {
  switch (kind) {
    case OpKind::gather:
    case OpKind::reduce_grad:
    case OpKind::gather_grad:
    case OpKind::share_control:
    case OpKind::share_sums:
    case OpKind::gather_state:
      return true;
    default:
      return false;
  }
}

std::string_view group_name(Span span) {
  return span == Span::all ? "dp" : span == Span::inner ? "dp.inner" : "dp.outer";
}

// The neighbour of an op on its lane, or else in its program, for messages about an op that is on the wrong one.
std::string neighbour(const Program& program, OpId id) {
  for (OpId other = id; other-- > 0;) {
    if (program.ops[other].lane == program.ops[id].lane) return fmt::format("behind '{}'", program.ops[other].name);
  }
  for (OpId other = id + 1; other < program.ops.size(); ++other) {
    if (program.ops[other].lane == program.ops[id].lane) return fmt::format("before '{}'", program.ops[other].name);
  }
  return fmt::format("alone, its program {} '{}'", id > 0 ? "behind" : "before", program.ops[id > 0 ? id - 1 : 1].name);
}

// Whether an op adds to gradients or defines them; the first of two levels of a reduction always defines, and one in
// place between groups with equal shards does neither.
bool adds_up(const Op& op) {
  if (op.kind == OpKind::backward) return true;
  if (op.kind != OpKind::reduce_grad) return false;
  const bool partial = std::any_of(op.accesses.begin(), op.accesses.end(),
                                   [](const Access& access) { return access.role == Role::partial; });
  return op.span == Span::all || (op.span == Span::outer) == partial;
}

// A lane is one queue in front of one communicator or one kind of engine.
void check_lane(const ProgramSet& set, const Program& program, OpId id) {
  const Op& op = program.ops[id];
  const Lane& lane = set.lanes[op.lane];
  const bool comm = lane.kind == LaneKind::comm;
  const bool legal = communicates(op.kind) ? comm && lane.group == group_name(op.span)
                     : runs_block(op.kind) ? lane.kind == LaneKind::compute
                                           : !comm;
  if (legal) return;
  throw ProgramError(fmt::format("program '{}': op '{}' ({}) is on lane {} {}; it belongs on {}", program.phase,
                                 op.name, op_kind_name(op.kind), lane.name(), neighbour(program, id),
                                 communicates(op.kind) ? fmt::format("lane comm:{}", group_name(op.span))
                                 : runs_block(op.kind) ? "lane compute"
                                                       : "a lane that does not communicate"));
}

void check_units(const Program& program, const Op& op, const Layout& layout) {
  for (uint32_t u : op.units) {
    if (u < layout.units.units.size()) continue;
    throw ProgramError(
        fmt::format("op '{}' of '{}' uses unit {} of {}", op.name, program.phase, u, layout.units.units.size()));
  }
  if (adds_up(op) && op.accumulate.size() != op.units.size()) {
    throw ProgramError(fmt::format("op '{}' of '{}' says of {} of its {} units whether it adds to the gradient",
                                   op.name, program.phase, op.accumulate.size(), op.units.size()));
  }
  if (runs_block(op.kind) || op.kind == OpKind::load_batch) {
    if (op.block >= layout.model->blocks.size())
      throw ProgramError(fmt::format("op '{}' is of block {} of {}", op.name, op.block, layout.model->blocks.size()));
  }
  if (runs_block(op.kind) && op.units != layout.units.blocks[op.block]) {
    throw ProgramError(fmt::format("op '{}' of '{}' does not use the units of block '{}'", op.name, program.phase,
                                   layout.model->blocks[op.block]->name()));
  }
}

// Accesses that come once per unit: neither more nor fewer than units where the op cannot work without.
void check_per_unit(const Program& program, const Op& op) {
  auto count = [&](Role role) {
    return static_cast<size_t>(
        std::count_if(op.accesses.begin(), op.accesses.end(), [&](const Access& a) { return a.role == role; }));
  };
  auto demand = [&](Role role, const char* what, bool all) {
    const size_t found = count(role);
    if (found == op.units.size() || (!all && found < op.units.size())) return;
    throw ProgramError(
        fmt::format("op '{}' of '{}' names {} {} for {} units", op.name, program.phase, found, what, op.units.size()));
  };
  demand(Role::weight, "weights", runs_block(op.kind));
  demand(Role::local_grad, "local gradients", op.kind == OpKind::backward);
  demand(Role::grad, "gradients", false);
  demand(Role::master, "master weights", false);
  demand(Role::partial, "partial results", false);
  if (op.kind != OpKind::snapshot) demand(Role::full_state, "whole states", false);
}

}  // namespace

void check_references(const ProgramSet& set, const Program& program, const Layout& layout) {
  if (set.lanes.size() > max_lanes)
    throw ProgramError(fmt::format("a program set has {} lanes; at most {} are legal", set.lanes.size(), max_lanes));
  for (OpId id = 0; id < program.ops.size(); ++id) {
    const Op& op = program.ops[id];
    if (op.lane >= set.lanes.size())
      throw ProgramError(fmt::format("op '{}' runs on lane {} of {}", op.name, op.lane, set.lanes.size()));
    for (OpId other : op.waits) {
      if (other < program.ops.size()) continue;
      throw ProgramError(fmt::format("op '{}' waits for op {} of {}", op.name, other, program.ops.size()));
    }
    for (const Access& access : op.accesses) {
      if (access.buffer < set.buffers.size()) continue;
      throw ProgramError(fmt::format("op '{}' uses buffer {} of {}", op.name, access.buffer, set.buffers.size()));
    }
    check_units(program, op, layout);
    check_per_unit(program, op);
    check_lane(set, program, id);
  }
  for (const Segment& segment : program.segments) {
    for (OpId id = segment.first; id < segment.first + segment.count; ++id) {
      for (const Access& access : program.ops[id].accesses) {
        const Buffer& buffer = set.buffers[access.buffer];
        const uint32_t last = access.slot.at(segment.repeat - 1);
        if (last < buffer.slots) continue;
        throw ProgramError(fmt::format(
            "program '{}' is not safe: '{}' uses buffer '{}' but slot {} of {} does not exist{}", program.phase,
            program.ops[id].name, buffer.name, last, buffer.slots, other_user(set, program.ops[id], access.buffer)));
      }
    }
  }
}

}  // namespace zrt::runtime::verification
