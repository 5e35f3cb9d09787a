#include "runtime/passes/offload.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "optimizer/optimizer.h"
#include "runtime/ops/spec.h"
#include "runtime/program/block_plan.h"

namespace zrt::runtime {
namespace {

using optimizer::Extent;

bool updates(const Op& op) {
  return spec(op.kind).site == Site::update;
}

bool same(Index a, Index b) {
  return a.first == b.first && a.step == b.step;
}

LaneKind lane_between(Tier from, Tier to) {
  if (from == Tier::nvme || to == Tier::nvme) return LaneKind::io;
  return to == Tier::device ? LaneKind::to_device : LaneKind::to_host;
}

}  // namespace

Offload::Offload(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& blocks, const StateBuffers& state)
    : set_(set), layout_(layout), blocks_(blocks), control_(state.control), decided_(state.decided()) {
  for (uint32_t u = 0; u < layout.units.units.size(); ++u) {
    const optimizer::Unit& unit = layout.units.units[u];
    const UnitTiers tiers = layout.placement.tiers(u);
    const bool exchanges = layout.optimizer->exchanges(unit);
    if (tiers.update == Tier::nvme || (exchanges && tiers.update == Tier::host)) {
      throw core::ConfigError(fmt::format("the update of unit '{}' is to run on the tier {}; {}", unit.name,
                                          core::tier_names[static_cast<size_t>(tiers.update)],
                                          exchanges ? "ranks share sums or whole matrices for it, which the device "
                                                      "does: set memory.update to \"auto\" or \"device\""
                                                    : "legal are device and host"));
    }
    auto set_tier = [&](BufferId id, Tier tier, core::Form form) {
      if (id == no_buffer) return;
      Buffer& buffer = set_.buffers[id];
      buffer.tier = tier;
      const uint64_t shard = core::form_bytes(form, unit.shard);
      states_[id] = {u, shard, buffer.bytes > shard};
    };
    set_tier(state.weight[u], tiers.weight, layout.weight_form(unit));
    set_tier(state.grad[u], tiers.grad, core::form_of(layout.grad));
    set_tier(state.master[u], tiers.master, core::Form::f32);
    // Kinds that every rank holds whole never move in part.
    for (size_t k = 0; k < state.states[u].size(); ++k) {
      set_.buffers[state.states[u][k]].tier = tiers.state(k);
      states_[state.states[u][k]] = {u, 0, false};
    }
  }
  if (layout.placement.sliding.layers > 0) sliding_.emplace(layout, state);
}

// A block keeps for its backward what its forward saves, and its input.
void Offload::place_activations(const Draft& draft) {
  if (draft.phase != "step") return;
  for (const DraftSegment& segment : draft.segments) {
    for (const Op& op : segment.ops) {
      if (op.kind != OpKind::forward) continue;
      for (const Access& access : op.accesses) {
        if (access.role != Role::saved && access.role != Role::input) continue;
        set_.buffers[access.buffer].tier =
            access.role == Role::input ? blocks_[op.block].input_tier() : layout_.placement.activation(op.block);
      }
    }
  }
}

void Offload::find_last_reads(const Draft& draft) {
  last_read_.clear();
  for (size_t s = 0; s < draft.segments.size(); ++s) {
    const DraftSegment& segment = draft.segments[s];
    for (size_t i = 0; i < segment.ops.size(); ++i) {
      for (const Access& access : segment.ops[i].accesses) {
        if (access.use == Use::write) continue;
        // In a repeated segment the next turn may read it, unless it is of one microbatch.
        const bool crosses = segment.repeat > 1 && set_.buffers[access.buffer].life != Life::transient;
        last_read_[access.buffer] = {s, crosses ? ~size_t{0} : i};
      }
    }
  }
}

Tier Offload::tier_for(const Op& op, const Access& access) const {
  const Tier resident = set_.buffers[access.buffer].tier;
  switch (spec(op.kind).site) {
    case Site::device:
      break;
    case Site::update:
      return access.role == Role::sums ? Tier::device : layout_.placement.tiers(op.units[0]).update;
    case Site::resident:
      return resident == Tier::nvme ? Tier::host : resident;
  }
  return Tier::device;
}

// Ranks that hold a whole unit but update their shard of it need no more of it than that.
bool Offload::needs_shard(const Op& op, const Access& access) const {
  const auto found = states_.find(access.buffer);
  return updates(op) && found != states_.end() && found->second.whole && found->second.shard_bytes > 0 &&
         unit_of(op).held.states == Extent::shard && set_.buffers[access.buffer].tier != Tier::nvme;
}

// True where an op defines all of a copy of what it says it updates.
bool Offload::overwrites(const Op& op, const Access& access) const {
  if (access.use == Use::write) return true;
  if (op.kind != OpKind::update || access.role != Role::weight || !layout_.has_master(unit_of(op))) return false;
  return needs_shard(op, access) || !states_.at(access.buffer).whole || unit_of(op).held.states == Extent::full;
}

BufferId Offload::copy_buffer(BufferId resident, Index slot, Tier tier, bool part) {
  // Activations have two copies, so that one moves while the other is worked on.
  const uint32_t parity = states_.count(resident) == 0 && !is_control(resident) ? slot.first % 2 : 0;
  const auto [found, inserted] = buffers_.try_emplace({resident, tier, part, parity}, no_buffer);
  if (!inserted) return found->second;
  const Buffer& original = set_.buffers[resident];
  Buffer copy;
  copy.name = fmt::format("{}{} on the {}{}", part ? "shard of " : "", original.name,
                          core::tier_names[static_cast<size_t>(tier)], parity == 0 ? "" : ", second");
  const bool kept = states_.count(resident) == 0 || (tier == Tier::device && sliding_ && sliding_->layer_of(resident));
  copy.category = kept ? original.category : core::Category::staging;
  copy.bytes = part ? states_.at(resident).shard_bytes : original.bytes;
  copy.tier = tier;
  copy.whole_blocks = original.tier == Tier::nvme && tier == Tier::host;
  return found->second = set_.add(std::move(copy));
}

void Offload::transfer(const Op& cause, OpKind kind, BufferId from, Index from_slot, BufferId to, Index to_slot,
                       bool part, BufferId resident) {
  Op op;
  op.kind = kind;
  op.lane = set_.lane(lane_between(set_.buffers[from].tier, set_.buffers[to].tier));
  op.name = fmt::format("{} {}{} {} {}", op_kind_name(kind), part ? "shard of " : "", set_.buffers[resident].name,
                        kind == OpKind::fetch ? "for" : "after", cause.name);
  op.block = cause.block;
  op.row = set_.lanes[cause.lane].kind == LaneKind::host ? cause.row : 0;
  if (const auto found = states_.find(resident); found != states_.end()) {
    op.units = {found->second.unit};
    if (part) op.shard_bytes = found->second.shard_bytes;
  } else {
    op.microbatch = cause.microbatch;
  }
  const bool fills = !part || set_.buffers[to].bytes == op.shard_bytes || kind == OpKind::fetch;
  op.accesses = {{from, Role::copied, Use::read, from_slot},
                 {to, Role::copy, fills ? Use::write : Use::update, to_slot}};
  out_->push_back(std::move(op));
}

// Fetches a copy's contents from its resident tier, through the host where that lies between.
void Offload::bring(const Op& op, const Copy& copy, bool shard_only) {
  BufferId from = copy.resident;
  Index slot = copy.slot;
  if (set_.buffers[from].tier == Tier::nvme && copy.tier == Tier::device) {
    const BufferId between = copy_buffer(copy.resident, copy.slot, Tier::host, false);
    transfer(op, OpKind::fetch, from, slot, between, {}, false, copy.resident);
    from = between, slot = {};
  }
  transfer(op, OpKind::fetch, from, slot, copy.buffer, {}, copy.part || shard_only, copy.resident);
}

void Offload::write_back(const Op& op, const Copy& copy) {
  BufferId from = copy.buffer;
  if (set_.buffers[copy.resident].tier == Tier::nvme && copy.tier == Tier::device) {
    const BufferId between = copy_buffer(copy.resident, copy.slot, Tier::host, false);
    transfer(op, OpKind::evict, from, {}, between, {}, false, copy.resident);
    from = between;
  }
  transfer(op, OpKind::evict, from, {}, copy.resident, copy.slot, copy.part, copy.resident);
}

Offload::Copy* Offload::find(BufferId resident, Index slot, Tier tier, bool part) {
  for (Copy& copy : copies_) {
    if (copy.resident == resident && same(copy.slot, slot) && copy.tier == tier && copy.part == part) return &copy;
  }
  return nullptr;
}

Offload::Copy& Offload::add_copy(const Op& op, const Access& access, bool slides) {
  const BufferId resident = access.buffer;
  const Tier tier = tier_for(op, access);
  const bool part = needs_shard(op, access);
  copies_.push_back({resident, access.slot, tier, copy_buffer(resident, access.slot, tier, part), part, false, slides});
  Copy& copy = copies_.back();
  // A gather in place needs this rank's shard and fills in the rest.
  const bool in_place = (op.kind == OpKind::gather || op.kind == OpKind::gather_grad) && access.use == Use::update;
  const bool shard_only = in_place && states_.at(resident).shard_bytes > 0 && states_.at(resident).whole &&
                          set_.buffers[resident].tier != Tier::nvme && unit_of(op).shards() == layout_.mesh.data();
  if (overwrites(op, access)) return copy;
  bring(op, copy, shard_only);
  // Updates take one unit at a time of what slides: so few layers may have room that two are too many.
  out_->back().fixed = slides || (tier == Tier::device && sliding_ && sliding_->layer_of(resident));
  return copy;
}

void Offload::attach(Op& op, Access& access) {
  const BufferId resident = access.buffer;
  const Tier tier = tier_for(op, access);
  const bool placed = states_.count(resident) > 0 || is_control(resident) || access.role == Role::saved ||
                      access.role == Role::input || access.role == Role::output;
  if (!placed || tier == set_.buffers[resident].tier) {
    // A write to the resident buffer makes its copies worthless.
    if (access.use == Use::read) return;
    std::erase_if(copies_, [&](const Copy& copy) { return copy.resident == resident && same(copy.slot, access.slot); });
    return;
  }
  const bool defines = overwrites(op, access);
  Copy* copy = find(resident, access.slot, tier, needs_shard(op, access));
  if (!copy) copy = &add_copy(op, access, false);
  copy->dirty = copy->dirty || access.use != Use::read;
  access.buffer = copy->buffer;
  access.slot = {};
  if (defines) access.use = Use::write;
}

bool Offload::read_later(const Copy& copy, size_t position) const {
  if (set_.buffers[copy.resident].life == Life::carried) return true;
  const auto found = last_read_.find(copy.resident);
  return found != last_read_.end() && found->second > std::pair{segment_, position};
}

// True where the op that needs a copy next is near: with no computation in between, or for gradients, which are summed,
// reduced and measured while the next block computes, with one.
bool Offload::stays(const std::vector<Op>& ops, size_t position, const Copy& copy) const {
  const bool grad = set_.buffers[copy.resident].category == core::Category::grads;
  size_t between = 0;
  for (size_t i = position + 1; i < ops.size(); ++i) {
    for (const Access& access : ops[i].accesses) {
      if (access.buffer != copy.resident || !same(access.slot, copy.slot)) continue;
      return tier_for(ops[i], access) == copy.tier && needs_shard(ops[i], access) == copy.part;
    }
    // Updates of other units that come before a gradient's reduction do not evict it first.
    const bool passes = is_control(copy.resident) || !works(ops[i]) || (grad && ops[i].row != 0);
    if (!passes && between++ == (grad ? 1 : 0)) return false;
  }
  return false;
}

void Offload::drop_after(const std::vector<Op>& ops, size_t position) {
  for (size_t i = 0; i < copies_.size();) {
    if (copies_[i].slides && copies_[i].dirty) write_back(ops[position], copies_[i]), copies_[i].dirty = false;
    if (copies_[i].slides || stays(ops, position, copies_[i])) {
      ++i;
      continue;
    }
    if (copies_[i].dirty && read_later(copies_[i], position)) write_back(ops[position], copies_[i]);
    copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// Drops the copies of layers that leave and fetches those of layers that come, in the form that their first user needs.
void Offload::slide(const std::vector<Op>& ops, const SlidingLayers::Move& move) {
  for (uint32_t layer : move.leave) {
    std::erase_if(copies_, [&](const Copy& copy) { return copy.slides && sliding_->layer_of(copy.resident) == layer; });
  }
  for (uint32_t layer : move.come) {
    for (BufferId weight : sliding_->weights(layer)) {
      const auto needs = [&](const Access& access) { return access.buffer == weight; };
      const auto user = std::find_if(ops.begin() + static_cast<std::ptrdiff_t>(move.op), ops.end(), [&](const Op& op) {
        return spec(op.kind).site == Site::device && std::any_of(op.accesses.begin(), op.accesses.end(), needs);
      });
      if (user == ops.end()) continue;
      add_copy(*user, *std::find_if(user->accesses.begin(), user->accesses.end(), needs), true);
    }
  }
}

void Offload::rewrite(Draft& draft) {
  place_activations(draft);
  find_last_reads(draft);
  std::vector<SlidingLayers::Moves> sliding(draft.segments.size());
  if (sliding_) sliding = sliding_->plan(draft);
  for (segment_ = 0; segment_ < draft.segments.size(); ++segment_) {
    const std::vector<Op> ops = std::move(draft.segments[segment_].ops);
    std::vector<Op>& out = draft.segments[segment_].ops;
    out.clear();
    out_ = &out;
    auto move = sliding[segment_].moves.begin();
    for (size_t i = 0; i < ops.size(); ++i) {
      for (; move != sliding[segment_].moves.end() && move->op == i; ++move) slide(ops, *move);
      Op op = ops[i];
      if (updates(op) && layout_.placement.tiers(op.units[0]).update == Tier::host) op.lane = set_.lane(LaneKind::host);
      // An op names a buffer once for each use; they must agree on the copy.
      for (Access& access : op.accesses) attach(op, access);
      out.push_back(std::move(op));
      drop_after(ops, i);
    }
    if (sliding[segment_].empties) std::erase_if(copies_, [](const Copy& copy) { return copy.slides; });
  }
}

}  // namespace zrt::runtime
