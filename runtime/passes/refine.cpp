// Updates of units that an optimizer refines whole. Ranks share the work: units go in batches of one for each rank, the
// costliest first. A batch collects while the one before it is refined, and is handed out while the next one is. What
// tensor-parallel ranks have slices of belongs to all of them, so it is in batches of its own.
#include <fmt/format.h>

#include <algorithm>

#include "optimizer/optimizer.h"
#include "runtime/passes/collectives.h"

namespace zrt::runtime {
namespace {

using core::Category;

class Refinements {
 public:
  Refinements(DraftSegment& segment, ProgramSet& set, const Layout& layout, const StateBuffers& state,
              std::vector<uint32_t> units, uint32_t first_owner)
      : segment_(segment), set_(set), layout_(layout), state_(state), first_owner_(first_owner) {
    const auto cost = [&](uint32_t u) { return layout.optimizer->refine_flops(layout.units.units[u]); };
    std::stable_sort(units.begin(), units.end(), [&](uint32_t a, uint32_t b) {
      if (unit(a).holder_axes != unit(b).holder_axes) {
        return unit(a).sliced() != unit(b).sliced() ? unit(a).sliced() : unit(b).spread();
      }
      return cost(a) > cost(b);
    });
    for (uint32_t u : units) {
      const auto most = static_cast<size_t>(layout.mesh.degree(unit(u).holder_axes));
      if (batches_.empty() || batches_.back().units.size() == most ||
          unit(batches_.back().units[0]).holder_axes != unit(u).holder_axes) {
        batches_.emplace_back();
      }
      batches_.back().units.push_back(u);
    }
  }

  void emit(const std::vector<uint32_t>& others) {
    const size_t ahead = layout_.overlap ? 1 : 0;
    for (size_t step = 0; step < batches_.size() + 2 * ahead; ++step) {
      if (step < batches_.size()) collect(batches_[step]);
      if (step >= ahead && step - ahead < batches_.size()) refine(batches_[step - ahead]);
      // The updates of other units stand beside the last exchange.
      if (step + 1 == batches_.size() + 2 * ahead) add_plain_updates(segment_, set_, layout_, state_, others);
      if (step >= 2 * ahead) update(batches_[step - 2 * ahead]);
    }
  }

 private:
  struct Batch {
    std::vector<uint32_t> units;
    std::vector<BufferId> proposals;  // of each unit
    BufferId whole = no_buffer;
  };
  const optimizer::Unit& unit(uint32_t u) const { return layout_.units.units[u]; }
  int slices(uint32_t u) const { return layout_.mesh.degree(unit(u).holder_axes.without(unit(u).shard_axes)); }
  uint64_t all_proposals(uint32_t u) const {
    return static_cast<uint64_t>(slices(u) * unit(u).elements) * sizeof(float);
  }

  Op make(OpKind kind, const std::vector<uint32_t>& units) const {
    Op op;
    op.kind = kind;
    op.name =
        fmt::format("{} {}", kind == OpKind::hand_out ? "hand out" : op_kind_name(kind), units_name(layout_, units));
    op.units = units;
    op.first_owner = first_owner_;
    return op;
  }
  void push(Op op) {
    if (spec(op.kind).communicates()) place_in(set_, op, unit(op.units[0]).holder_axes);
    segment_.ops.push_back(std::move(op));
  }
  static void touch(Op& op, BufferId buffer, Role role, Use use) {
    if (buffer != no_buffer) op.accesses.push_back({buffer, role, use, {}});
  }
  void touch_proposals(Op& op, const Batch& batch, Use use) const {
    for (BufferId proposal : batch.proposals) touch(op, proposal, Role::proposal, use);
  }

  void collect(Batch& batch) {
    uint64_t largest = 0;
    for (uint32_t u : batch.units) {
      const auto elements = static_cast<uint64_t>(unit(u).extent(unit(u).held.states));
      batch.proposals.push_back(
          set_.add({"proposal for " + unit(u).name, Category::comm, Life::transient, elements * sizeof(float)}));
      largest = std::max(largest, all_proposals(u));
      Op op = make(OpKind::propose, {u});
      touch(op, state_.decided(), Role::control, Use::read);
      touch(op, state_.grad[u], Role::grad, Use::read);
      for (BufferId kind : state_.states[u]) touch(op, kind, Role::state, Use::update);
      touch(op, batch.proposals.back(), Role::proposal, Use::write);
      push(std::move(op));
    }
    batch.whole =
        set_.add({"whole proposal of " + units_name(layout_, batch.units), Category::comm, Life::transient, largest});
    Op op = make(OpKind::collect, batch.units);
    touch_proposals(op, batch, Use::read);
    touch(op, batch.whole, Role::refined, Use::write);
    push(std::move(op));
  }

  void refine(const Batch& batch) {
    uint64_t workspace = 0;
    for (uint32_t u : batch.units) {
      // Slices come together there.
      const uint64_t matrix = unit(u).sliced() ? all_proposals(u) : 0;
      workspace = std::max(workspace, matrix + layout_.optimizer->refine_bytes(unit(u)));
    }
    Op op = make(OpKind::refine, batch.units);
    touch(op, batch.whole, Role::refined, Use::update);
    if (workspace > 0) {
      const BufferId work = set_.add(
          {"workspace to refine " + units_name(layout_, batch.units), Category::workspace, Life::transient, workspace});
      touch(op, work, Role::workspace, Use::write);
    }
    push(std::move(op));
    op = make(OpKind::hand_out, batch.units);
    touch(op, batch.whole, Role::refined, Use::read);
    touch_proposals(op, batch, Use::write);
    push(std::move(op));
  }

  void update(const Batch& batch) {
    for (size_t i = 0; i < batch.units.size(); ++i) {
      const uint32_t u = batch.units[i];
      Op op = make(OpKind::update, {u});
      op.first_owner = 0;
      touch(op, state_.decided(), Role::control, Use::read);
      touch(op, state_.weight[u], Role::weight, Use::update);
      touch(op, batch.proposals[i], Role::proposal, Use::read);
      touch(op, state_.master[u], Role::master, Use::update);
      push(std::move(op));
    }
  }

  DraftSegment& segment_;
  ProgramSet& set_;
  const Layout& layout_;
  const StateBuffers& state_;
  const uint32_t first_owner_;
  std::vector<Batch> batches_;
};

}  // namespace

void add_updates(DraftSegment& segment, ProgramSet& set, const Layout& layout, const StateBuffers& state,
                 const std::vector<uint32_t>& units, uint32_t first_owner) {
  std::vector<uint32_t> refined, others;
  for (uint32_t u : units) {
    (layout.optimizer->refines(layout.units.units[u].group) ? refined : others).push_back(u);
  }
  if (refined.empty()) return add_plain_updates(segment, set, layout, state, others);
  Refinements(segment, set, layout, state, refined, first_owner).emit(others);
}

}  // namespace zrt::runtime
