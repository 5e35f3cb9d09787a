#include <fmt/format.h>

#include "runtime/ops/spec.h"
#include "runtime/verify/fault.h"
#include "runtime/verify/rules.h"

namespace zrt::runtime::verification {
namespace {

bool gathers_weights(OpKind kind) {
  return gathers(kind) && kind != OpKind::gather_grad;
}

// Calls visit(access, unit) for what names weights of a unit: once per unit, in the order of Op::units.
template <class Visit>
void for_each_weight(const Op& op, Visit visit) {
  std::array<uint32_t, role_count> seen{};
  for (const Access& access : op.accesses) {
    const uint32_t nth = seen[static_cast<size_t>(access.role)]++;
    const bool state = access.role == Role::full_state &&
                       (gathers_weights(op.kind) || op.kind == OpKind::export_state || op.kind == OpKind::gather_parts);
    const bool partial = access.role == Role::partial && gathers_weights(op.kind);
    if (access.role == Role::weight || access.role == Role::master || state || partial) visit(access, op.units[nth]);
  }
}

// True where an update leaves only this rank's shard of a buffer of the unit current.
bool leaves_shard(const Walk& walk, BufferId id, bool master, uint32_t unit) {
  const core::DType type = master ? core::DType::f32 : walk.layout.compute;
  const optimizer::Unit& of = walk.layout.units.units[unit];
  const auto whole = static_cast<uint64_t>(of.elements) * core::dtype_size(type);
  if (of.shards() == 1) return false;
  return walk.set.buffers[id].bytes < whole || of.held.states == optimizer::Extent::shard;
}
bool leaves_shard(const Walk& walk, BufferId kept, uint32_t unit) {
  return leaves_shard(walk, kept, walk.set.buffers[kept].category == core::Category::master, unit);
}

}  // namespace

WeightRule::WeightRule(Walk& walk)
    : walk_(walk),
      version_(walk.layout.units.units.size()),
      updated_(version_.size()),
      left_by_(walk.set.buffers.size()),
      unit_of_(walk.set.buffers.size(), none),
      namer_(unit_of_.size()) {
  // Programs before this one may have left stale weights: a whole copy is current unless the last op of one of them to
  // write it is an update of a shard. A program "refresh" mends that before any other than the next step.
  std::vector<uint8_t> stale(unit_of_.size());
  std::vector<const Op*> writer(unit_of_.size());  // of what lies there, wherever it was written
  for (const Program& program : walk.set.programs) {
    std::fill(writer.begin(), writer.end(), nullptr);
    for (const Op& op : program.ops) {
      const auto name_unit = [&](BufferId buffer, uint32_t unit) {
        if (is_kept(buffer) && unit_of_[buffer] == none) unit_of_[buffer] = unit, namer_[buffer] = &op;
      };
      if (transfers(op.kind)) {
        const Access* sides[2]{};
        for (const Access& access : op.accesses) {
          sides[access.role == Role::copied ? 0 : 1] = &access;
          const core::Category category = walk.set.buffers[access.buffer].category;
          const bool weights = category == core::Category::weights || category == core::Category::master;
          if (weights && !op.units.empty()) name_unit(access.buffer, op.units[0]);
        }
        if (sides[0] && sides[1]) writer[sides[1]->buffer] = writer[sides[0]->buffer];
        continue;
      }
      for_each_weight(op, [&](const Access& access, uint32_t unit) { name_unit(access.buffer, unit); });
      for (const Access& access : op.accesses) {
        if (access.use != Use::read) writer[access.buffer] = &op;
      }
    }
    for (BufferId b = 0; b < stale.size(); ++b) {
      if (unit_of_[b] == none || !writer[b] || writer[b]->kind != OpKind::update) continue;
      if (!leaves_shard(walk, b, unit_of_[b])) continue;
      stale[b] = 1;
      left_by_[b] = writer[b];
    }
  }
  for (BufferId b = 0; b < unit_of_.size(); ++b) {
    if (unit_of_[b] == none) continue;
    Content& content = walk.at(b, 0);
    content.unit = unit_of_[b];
    const Buffer& buffer = walk.set.buffers[b];
    const core::DType type = buffer.category == core::Category::master ? core::DType::f32 : walk.layout.compute;
    const auto whole = static_cast<uint64_t>(walk.layout.units.units[content.unit].elements) * core::dtype_size(type);
    const bool mended = walk.program.phase != "step" && walk.program.phase != "refresh" && walk.set.has("refresh");
    content.spread = buffer.bytes >= whole && (mended || !stale[b]) ? Spread::whole : Spread::own;
    if (walk.program.phase == "refresh" && buffer.bytes >= whole && stale[b]) stale_.push_back(b);
  }
}

void WeightRule::end() const {
  for (BufferId b : stale_) {
    if (walk_.at(b, 0).spread == Spread::whole) continue;
    throw Fault({&walk_.program, {}, b, unit_of_[b]},
                fmt::format("program 'refresh' is not safe: it leaves '{}' as 'update {}' left it, not whole; "
                            "its last op is '{}'",
                            walk_.set.buffers[b].name, walk_.unit_name(unit_of_[b]),
                            walk_.program.ops.empty() ? "none" : walk_.program.ops.back().name));
  }
}

bool WeightRule::is_kept(BufferId buffer) const {
  return walk_.set.buffers[buffer].life == Life::carried;
}

void WeightRule::read() {
  const Op& op = walk_.op();
  for_each_weight(op, [&](const Access& access, uint32_t unit) {
    if (is_kept(access.buffer) && unit_of_[access.buffer] != unit) {
      walk_.fail(access, fmt::format("means the weights of '{}', while '{}' means those of '{}'", walk_.unit_name(unit),
                                     namer_[access.buffer]->name, walk_.unit_name(unit_of_[access.buffer])));
    }
    if (access.use == Use::write) return;
    if (runs_block(op.kind) || op.kind == OpKind::export_state || op.kind == OpKind::gather_parts) {
      return require_current(access, unit, true);
    }
    if (op.kind == OpKind::sum || (gathers_weights(op.kind) && access.use == Use::read)) {
      require_current(access, unit, false);
    }
    const bool partial = gathers_weights(op.kind) && access.role == Role::partial;
    if (partial && walk_.at(access).spread != Spread::part) {
      walk_.fail(access,
                 fmt::format("{} left no part of a gather between groups there", walk_.name(walk_.at(access).changed)));
    }
  });
}

void WeightRule::require_current(const Access& access, uint32_t unit, bool whole) {
  const Content& content = walk_.at(access);
  const bool late = walk_.layout.late_updates() && walk_.program.phase == "step";
  if (runs_block(walk_.op().kind) && version_[unit] > 0 && !late) {
    walk_.fail(access, fmt::format("{} has updated '{}' before: blocks read the weights that the step began with",
                                   walk_.name(updated_[unit]), walk_.unit_name(unit)));
  }
  if (content.unit != unit) {
    walk_.fail(access, fmt::format("means the weights of '{}', and {} left there those of '{}'", walk_.unit_name(unit),
                                   walk_.name(content.changed),
                                   content.unit == none ? "no unit" : walk_.unit_name(content.unit)));
  }
  if (content.version != version_[unit]) {
    walk_.fail(access, fmt::format("{} has updated '{}' since {} filled it", walk_.name(updated_[unit]),
                                   walk_.unit_name(unit), walk_.name(content.changed)));
  }
  if (!whole || content.spread == Spread::whole) return;
  const Op* left_by = content.changed.known() ? nullptr : left_by_[access.buffer];
  walk_.fail(access,
             fmt::format("{} left only a part of '{}' current there; a gather is missing, {}. What this op "
                         "follows is {}",
                         left_by ? fmt::format("'{}' of a program before", left_by->name) : walk_.name(content.changed),
                         walk_.unit_name(unit), walk_.among(walk_.layout.units.units[unit].shard_axes),
                         walk_.name(before(walk_.program, walk_.now))));
}

void WeightRule::write() {
  const Op& op = walk_.op();
  if (gathers_weights(op.kind)) return gather();
  if (op.kind == OpKind::update) return update();
  if (op.kind != OpKind::init && op.kind != OpKind::load) return;
  for_each_weight(op, [&](const Access& access, uint32_t unit) { walk_.at(access).unit = unit; });
}

void WeightRule::gather() {
  const Op& op = walk_.op();
  for (size_t i = 0; i < op.units.size(); ++i) {
    const Access *partial = walk_.find(Role::partial, i), *weight = walk_.find(Role::weight, i);
    const Access* whole = walk_.find(Role::full_state, i);
    const Access* from = partial && partial->use == Use::read ? partial : weight ? weight : whole;
    const Access* to = partial && partial->use == Use::write ? partial : whole;
    if (!from || !to) walk_.fail(fmt::format("gathers '{}' from nowhere or to nowhere", walk_.unit_name(op.units[i])));
    const Content source = walk_.at(*from);
    const Content& before = walk_.at(*to);
    const bool there =
        before.changed.known() && before.spread == Spread::whole && before.version == version_[op.units[i]];
    const bool in_place = is_kept(to->buffer) || to->use == Use::update;
    if (in_place && there && walk_.layout.units.units[op.units[i]].shards() > 1) {
      walk_.fail(*to, fmt::format("gathers '{}' where {} left all of it current", walk_.unit_name(op.units[i]),
                                  walk_.name(before.changed)));
    }
    Content& target = walk_.at(*to);
    target.unit = op.units[i];
    target.version = version_[op.units[i]];
    target.spread = gathered(walk_, op.units[i], from == partial ? source.spread : Spread::own);
  }
}

void WeightRule::update() {
  const uint32_t unit = walk_.op().units[0];
  ++version_[unit];
  updated_[unit] = walk_.now;
  for_each_weight(walk_.op(), [&](const Access& access, uint32_t) {
    Content& content = walk_.at(access);
    content.version = version_[unit];
    const bool shard = leaves_shard(walk_, access.buffer, access.role == Role::master, unit);
    if (access.use == Use::write) content.unit = unit, content.spread = Spread::whole;  // a copy that it defines
    if (shard) content.spread = Spread::own;
  });
}

}  // namespace zrt::runtime::verification
