#include "runtime/verify/families.h"

#include <fmt/format.h>

#include <array>

#include "runtime/verify/contents.h"
#include "runtime/verify/fault.h"

namespace zrt::runtime::verification {
namespace {

enum What : uint8_t { unknown, passing, control, ahead, weights, gradient, master, state };

FaultPlace place_of(const Program& program, const Op& op, BufferId buffer = no_buffer) {
  return {&program, {static_cast<OpId>(&op - program.ops.data()), 0}, buffer};
}

const Access& side(const Program& program, const Op& op, Role role) {
  for (const Access& access : op.accesses) {
    if (access.role == role) return access;
  }
  throw Fault(place_of(program, op), fmt::format("op '{}' moves from nowhere or to nowhere", op.name));
}

}  // namespace

Families::Families(const ProgramSet& set, const Layout& layout)
    : set_(set), layout_(layout), meaning_(set.buffers.size()), family_(set.buffers.size()) {
  for (BufferId b = 0; b < family_.size(); ++b) family_[b] = b;
  std::vector<uint8_t> moved(family_.size());
  for (const Program& program : set.programs) {
    for (const Op& op : program.ops) {
      if (!transfers(op.kind)) continue;
      moved[side(program, op, Role::copied).buffer] = moved[side(program, op, Role::copy).buffer] = 1;
    }
  }
  for (const Program& program : set.programs) {
    for (const Op& op : program.ops) {
      if (transfers(op.kind)) continue;
      std::array<uint32_t, role_count> seen{};
      for (const Access& access : op.accesses) {
        const uint32_t nth = seen[static_cast<size_t>(access.role)]++;
        if (!moved[access.buffer]) continue;
        const Meaning here = meaning(op, access, nth);
        Meaning& known = meaning_[access.buffer];
        if (known.what == unknown) known = here;
        if (here.what == unknown || here == known) continue;
        throw Fault(place_of(program, op, access.buffer),
                    fmt::format("program '{}' is not safe: '{}' uses buffer '{}' but means {} by it and {}",
                                program.phase, op.name, set.buffers[access.buffer].name, text(here), text(known)));
      }
    }
  }
  for (const Program& program : set.programs) {
    for (const Op& op : program.ops) {
      if (transfers(op.kind)) join(program, op);
    }
  }
  for (BufferId b = 0; b < family_.size(); ++b) family_[b] = root(b);
  for (BufferId b = 0; b < family_.size(); ++b) {
    if (meaning_[family_[b]].what <= passing) family_[b] = none;
  }
}

Families::Meaning Families::meaning(const Op& op, const Access& access, uint32_t nth) const {
  const uint32_t unit = op.units.empty() ? 0 : op.units[std::min<size_t>(nth, op.units.size() - 1)];
  switch (access.role) {
    case Role::weight:
      // A state that is brought together is the weights that updates work on.
      return {op.kind == OpKind::gather_state && layout_.has_master(layout_.units.units[unit]) ? master : weights, unit,
              0, &op};
    case Role::grad:
      return {gradient, unit, 0, &op};
    case Role::master:
      return {master, unit, 0, &op};
    case Role::state:
      return {state, op.units[0], nth, &op};
    case Role::control: {
      const bool decided = follows_decision(op.kind) || (op.kind == OpKind::decide_ahead && access.use == Use::write);
      return {decided && layout_.update_when != UpdateWhen::after_norm ? ahead : control, 0, 0, &op};
    }
    case Role::local_grad:
      return layout_.reduces_in_place() ? Meaning{gradient, unit, 0, &op} : Meaning{passing, 0, 0, &op};
    case Role::full_state:
    case Role::snapshot:
      // Others say what it is the whole of; an export has one of its own made.
      if (op.kind != OpKind::gather_state || access.use != Use::write) return {};
      return {passing, 0, 0, &op};
    default:
      return {passing, 0, 0, &op};
  }
}

BufferId Families::root(BufferId buffer) {
  while (family_[buffer] != buffer) buffer = family_[buffer] = family_[family_[buffer]];
  return buffer;
}

void Families::join(const Program& program, const Op& transfer) {
  const BufferId from = side(program, transfer, Role::copied).buffer, to = side(program, transfer, Role::copy).buffer;
  const BufferId source = root(from), target = root(to);
  if (source == target) return;
  const Meaning &ours = meaning_[source], &theirs = meaning_[target];
  if (ours.what != unknown && theirs.what != unknown && !(ours == theirs)) {
    throw Fault(
        place_of(program, transfer, from),
        fmt::format("program '{}' is not safe: '{}' moves '{}', which is {}, to '{}', which is {}", program.phase,
                    transfer.name, set_.buffers[from].name, text(ours), set_.buffers[to].name, text(theirs)));
  }
  if (theirs.what == unknown) meaning_[target] = ours;
  family_[source] = target;
}

std::string Families::text(const Meaning& meaning) const {
  const std::string unit = meaning.what < weights ? "" : " of " + layout_.units.units[meaning.unit].name;
  const std::string what = meaning.what == state ? fmt::format("state {}", meaning.kind)
                                                 : std::array{"",
                                                              "nothing that stays",
                                                              "the control block",
                                                              "the decision ahead",
                                                              "the weights",
                                                              "the gradient",
                                                              "the master weights"}[meaning.what];
  return fmt::format("{}{} to '{}'", what, unit, meaning.op->name);
}

}  // namespace zrt::runtime::verification
