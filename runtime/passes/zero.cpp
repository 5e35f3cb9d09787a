#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>

#include "runtime/passes/collectives.h"
#include "runtime/passes/update_timing.h"

namespace zrt::runtime {
namespace {

using core::Category;
using optimizer::Extent;

class ZeroPass {
 public:
  ZeroPass(ProgramSet& set, const Layout& layout, const StateBuffers& state)
      : layout_(layout),
        state_(state),
        collectives_(set, layout),
        local_(layout.units.units.size(), no_buffer),
        waits_for_others_(layout.units.units.size()),
        fresh_(layout.units.units.size()),
        measured_(layout.units.units.size()) {
    const models::Model& model = *layout.model;
    for (size_t b = 0; b < model.blocks.size(); ++b) {
      const bool begins = b > 0 && model.receives(b) && layout.gathered_for == GatheredFor::run;
      chunk_.push_back(b == 0 ? 0 : chunk_.back() + begins);
    }
    one_run_ = chunk_.back() == 0;
  }

  void rewrite(Draft& draft) {
    trains_ = draft.phase == "step";
    if (trains_) timing_ = make_update_timing(collectives_.set(), layout_, state_, draft);
    find_window_ends(draft);
    for (DraftSegment& segment : draft.segments) {
      current_ = &segment;
      gathered_for_.reset();
      std::vector<Op> ops = std::move(segment.ops);
      segment.ops.clear();
      for (Op& op : ops) {
        if (timing_ && computes(op)) timing_->reads(segment, op);
        if (computes(op) && op.half != models::Half::weight) attach_weights(op);
        if (op.makes_gradients()) attach_grads(op);
        segment.ops.push_back(op);
        if (op.kind == OpKind::begin && timing_) timing_->begun(segment);
        if (op.kind != OpKind::backward || op.parts.first > 0) continue;  // which is not the last run of the block
        finish_reduced(segment);
        if (op.makes_gradients()) reduce_finished(op, ops_seen_++);
      }
    }
    if (trains_) finish(draft.segments.emplace_back());
  }

 private:
  std::span<const uint32_t> trained(const Op& op) const {  // those that have gradients
    return std::span(op.units).first(layout_.units.trained(op.units));
  }

  // Returns the window of an op. One that is repeated for other windows, which are neither the first nor the last, has
  // the first of them.
  uint32_t window(const Op& op) const { return op.microbatch.first / layout_.reduce_every; }

  // Finds for every unit and window which backward (by running number) writes it first and which last.
  void find_window_ends(const Draft& draft) {
    size_t number = 0;
    for (const DraftSegment& segment : draft.segments) {
      for (const Op& op : segment.ops) {
        if (!op.makes_gradients()) continue;
        for (uint32_t u : trained(op)) {
          auto [found, inserted] = ends_.try_emplace({window(op), u}, Ends{number, number});
          found->second.last = number;
        }
        last_backward_[window(op)] = number;
        if (op.parts.first == 0) ++number;  // the last of the block's runs of parts
      }
    }
    for (const auto& [key, later] : ends_) {
      const auto& [window, u] = key;
      if (window == 0) continue;
      const auto earlier = ends_.find({window - 1, u});
      if (earlier != ends_.end() && later.first < earlier->second.last) waits_for_others_[u] = 1;
    }
  }

  void attach_weights(Op& op) {
    refresh(op);
    gather(op);
    for (uint32_t u : op.units) {
      const bool whole = !layout_.gathers(layout_.units.units[u]);
      const BufferId buffer = whole ? state_.weight[u] : gathered_for_->buffers.at(u);
      op.accesses.push_back({buffer, Role::weight, Use::read, {}});
    }
  }

  // Brings whole weights together of which each rank updated a shard, before their first use in a step.
  void refresh(const Op& op) {
    if (!trains_) return;
    std::vector<uint32_t> stale;
    for (uint32_t u : op.units) {
      if (!layout_.units.units[u].refreshes() || fresh_[u]) continue;
      fresh_[u] = 1;
      stale.push_back(u);
    }
    for (const auto& bucket : buckets(layout_, stale, layout_.gather_bucket)) {
      collectives_.gather(current_->ops, gather_in_place(layout_, OpKind::gather, "gather updated ", bucket,
                                                         state_.weight, layout_.compute, op.block));
    }
  }

  // Brings sharded weights together for each block and direction, unless they are still there.
  void gather(const Op& op) {
    std::vector<uint32_t> sharded;
    for (uint32_t u : op.units) {
      if (layout_.gathers(layout_.units.units[u])) sharded.push_back(u);
    }
    const bool forward = op.kind != OpKind::backward && op.kind != OpKind::recompute;
    if (trains_ && layout_.stage.pipelined() && layout_.gathered_for != GatheredFor::use) {
      Run& run = runs_[one_run_ || forward ? 0 : 1];
      if (run.chunk != chunk_[op.block]) run = {chunk_[op.block], {}};
      const auto [kept, is_new] = run.blocks.try_emplace(op.block, Gathered{op.block, forward, {}});
      gathered_for_ = kept->second;
      if (!is_new) return;
      bring_together(op, sharded);
      kept->second = *gathered_for_;
      return;
    }
    const bool same_block = gathered_for_ && gathered_for_->block == op.block;
    if (same_block && (gathered_for_->forward == forward || layout_.reuse_at_turn)) {
      gathered_for_->forward = forward;
      return;
    }
    gathered_for_ = Gathered{op.block, forward, {}};
    bring_together(op, sharded);
  }

  void bring_together(const Op& op, const std::vector<uint32_t>& sharded) {
    for (const auto& bucket : buckets(layout_, sharded, layout_.gather_bucket)) {
      Collectives::Gather gather{OpKind::gather, {}, op.block, bucket, {}, {}, layout_.compute, true};
      gather.name = fmt::format("gather {} for {}", units_name(layout_, bucket), op.name);
      for (uint32_t u : bucket) {
        const optimizer::Unit& unit = layout_.units.units[u];
        const BufferId full = collectives_.buffer(
            fmt::format("{}gathered {} for {}", trains_ ? "" : "eval ", unit.name, op.name), Category::gathered,
            static_cast<uint64_t>(unit.elements) * core::dtype_size(layout_.compute));
        gathered_for_->buffers[u] = full;
        gather.part.push_back(state_.weight[u]);
        gather.full.push_back(full);
      }
      collectives_.gather(current_->ops, gather);
    }
  }

  void attach_grads(Op& op) {
    for (uint32_t u : trained(op)) {
      BufferId& local = local_[u];
      if (local == no_buffer) {
        const optimizer::Unit& unit = layout_.units.units[u];
        local = layout_.reduces_in_place()
                    ? state_.grad[u]
                    : collectives_.buffer("local grad of " + unit.name, Category::comm,
                                          static_cast<uint64_t>(unit.elements) * core::dtype_size(layout_.local_grad));
        collectives_.set().buffers[local].slots = waits_for_others_[u] ? layout_.windows() : 1;
      }
      const bool first = ends_.at({window(op), u}).first == ops_seen_;
      op.accumulate.push_back(first ? 0 : 1);
      // The first of the block's runs of parts defines the buffer, each its own gradients.
      const bool defines = first && op.parts.end == layout_.model->blocks[op.block]->anatomy().all().end;
      op.accesses.push_back({local, Role::local_grad, defines ? Use::write : Use::update, local_slot(u, window(op))});
    }
  }

  Index local_slot(uint32_t u, uint32_t window) const { return {waits_for_others_[u] ? window : 0, 0}; }

  // Units whose last backward of the window was number `number` wait to be reduced: until a bucket is full where
  // gradients are resident, not at all where they are transient.
  void reduce_finished(const Op& op, size_t number) {
    const uint32_t window = this->window(op);
    for (uint32_t u : trained(op)) {
      if (ends_.at({window, u}).last != number) continue;
      pending_.push_back(u);
      pending_elements_ += layout_.units.units[u].elements;
    }
    // A gradient that is resident elsewhere would stay on the device until its bucket is full.
    const bool leaves = std::any_of(pending_.begin(), pending_.end(),
                                    [&](uint32_t u) { return layout_.placement.tiers(u).grad != Tier::device; });
    if (waits_for_stages() && !leaves) return;
    const bool flush = !layout_.reduces_in_place() || leaves || last_backward_.at(window) == number ||
                       pending_elements_ >= layout_.reduce_bucket;
    if (flush) reduce_pending(window);
  }

  // A stage whose lanes take turns sends its last gradient first: the stage before it would wait for sums, too.
  bool waits_for_stages() const {
    return layout_.stage.pipelined() && !layout_.overlap && layout_.reduces_in_place() && !timing_->measures_at_once();
  }

  void reduce_pending(uint32_t window) {
    const bool last = window + 1 == layout_.windows();
    for (const auto& bucket : buckets(layout_, pending_, layout_.reduce_bucket)) {
      Collectives::Reduce reduce{bucket, {}, {}, {}, window > 0, last};
      for (uint32_t u : bucket) {
        reduce.local.push_back(local_[u]), reduce.slot.push_back(local_slot(u, window));
        reduce.grad.push_back(state_.grad[u]);
      }
      collectives_.reduce(current_->ops, reduce);
    }
    if (last) add_shares(pending_);
    // Stages come to what both have copies of at different times: nobody waits for another one in the middle of a step.
    const auto copied = [&](uint32_t u) { return last && layout_.units.units[u].copied; };
    std::copy_if(pending_.begin(), pending_.end(), std::back_inserter(copied_), copied);
    std::erase_if(pending_, copied);
    if (last) gather_grads(pending_);
    // A gradient that leaves for another tier is measured before it does, while the next block computes; so is what is
    // updated then, whose weights nobody reads any more: the last window's backwards are behind those of all others.
    for (uint32_t u : pending_) {
      if (last && (timing_->measures_at_once() || layout_.placement.tiers(u).grad != Tier::device)) {
        reduced_.push_back(u);
      }
    }
    pending_.clear();
    pending_elements_ = 0;
  }

  // Gathers gradients where ranks update everything.
  void gather_grads(const std::vector<uint32_t>& units) {
    if (layout_.zero.states != Extent::full) return;
    for (const auto& bucket : buckets(layout_, units, layout_.gather_bucket)) {
      collectives_.gather(current_->ops, gather_in_place(layout_, OpKind::gather_grad, "gather grad ", bucket,
                                                         state_.grad, layout_.grad));
    }
  }

  // Adds up the gradient of a unit that another stage of a pipeline has a copy of, or of which each rank that shares
  // the work of a block has made a part.
  template <class Ranks>
  void add_up(uint32_t u, Ranks group, const char* what) {
    Op op;
    op.kind = OpKind::reduce_grad;
    place_in(collectives_.set(), op, group);
    op.name = what + layout_.units.units[u].name;
    op.units = {u};
    op.accesses = {{state_.grad[u], Role::grad, Use::update, {}}};
    current_->ops.push_back(std::move(op));
  }
  void add_shares(const std::vector<uint32_t>& units) {
    for (uint32_t u : units) {
      const Axes others = layout_.units.units[u].gradient_axes.without(data_axes);
      if (others != Axes()) add_up(u, others, "reduce shares of ");
    }
  }

  void add_norms(DraftSegment& segment, const std::vector<uint32_t>& units) {
    for (uint32_t u : units) {
      if (layout_.units.units[u].counted_elsewhere) continue;
      Op op;
      op.kind = OpKind::norm;
      op.name = "norm " + layout_.units.units[u].name;
      op.units = {u};
      op.accesses = {{state_.grad[u], Role::grad, Use::read, {}}, {state_.control, Role::control, Use::update, {}}};
      segment.ops.push_back(std::move(op));
      measured_[u] = 1;
    }
  }

  void finish_reduced(DraftSegment& segment) {
    add_norms(segment, reduced_);
    timing_->measured(segment, reduced_);
    reduced_.clear();
  }

  void push(DraftSegment& segment, OpKind kind, std::string name, std::vector<Access> accesses) {
    Op op;
    op.kind = kind;
    if (spec(kind).communicates()) place_in(collectives_.set(), op, layout_.mesh.everyone());
    op.name = std::move(name);
    op.accesses = std::move(accesses);
    segment.ops.push_back(std::move(op));
  }

  // Adds what is left of norms, the decision, and what is left of updates.
  void finish(DraftSegment& segment) {
    finish_reduced(segment);
    current_ = &segment;
    reduce_pending(layout_.windows() - 1);
    // All stages add up in one order, whatever their own blocks were.
    std::sort(copied_.begin(), copied_.end(), [&](uint32_t a, uint32_t b) {
      return layout_.units.units[a].params.front().number < layout_.units.units[b].params.front().number;
    });
    for (uint32_t u : copied_) add_up(u, copies_group(layout_.units.units[u].of_layers), "reduce copies of ");
    gather_grads(copied_);
    if (timing_->measures_at_once()) {
      reduced_ = copied_;
      finish_reduced(segment);
    }
    std::vector<uint32_t> unmeasured;
    for (uint32_t u = 0; u < measured_.size(); ++u) {
      if (!measured_[u] && layout_.units.units[u].trained) unmeasured.push_back(u);
    }
    add_norms(segment, unmeasured);
    push(segment, OpKind::share_control, "share control",
         {{state_.control, Role::control, Use::read, {}}, {state_.shares, Role::shares, Use::write, {}}});
    push(segment, OpKind::decide, "decide",
         {{state_.shares, Role::shares, Use::read, {}}, {state_.control, Role::control, Use::update, {}}});
    timing_->decided(segment);
  }

  struct Ends {
    size_t first, last;
  };
  struct Gathered {
    uint32_t block;
    bool forward;
    std::map<uint32_t, BufferId> buffers;
  };
  const Layout& layout_;
  const StateBuffers& state_;
  Collectives collectives_;
  bool trains_ = false;
  std::unique_ptr<UpdateTiming> timing_;  // of a step
  std::vector<BufferId> local_;           // by unit
  // By unit: its sums of all windows are on their way at a time, as one block adds to all of them before another does.
  std::vector<uint8_t> waits_for_others_;
  std::vector<uint8_t> fresh_;     // by unit: brought up to date in this step
  std::vector<uint8_t> measured_;  // by unit: its norm has been taken
  std::vector<uint32_t> copied_;   // reduced, of which another stage has a copy
  std::vector<uint32_t> reduced_;  // since the last backward, to be measured (and updated) behind the next one
  std::map<std::pair<uint32_t, uint32_t>, Ends> ends_;
  std::map<uint32_t, size_t> last_backward_;
  std::optional<Gathered> gathered_for_;  // the op at hand
  // Holds what a pipeline keeps gathered, for forwards or for backwards; for both in one place where the step has one
  // run.
  struct Run {
    size_t chunk = 0;
    std::map<uint32_t, Gathered> blocks;
  };
  std::array<Run, 2> runs_;
  std::vector<size_t> chunk_;  // by block; all the same where weights are kept for the step
  bool one_run_ = false;
  std::vector<uint32_t> pending_;
  int64_t pending_elements_ = 0;
  size_t ops_seen_ = 0;  // backwards rewritten so far
  DraftSegment* current_ = nullptr;
};

}  // namespace

void apply_zero(Draft& draft, ProgramSet& set, const Layout& layout, const StateBuffers& state) {
  ZeroPass(set, layout, state).rewrite(draft);
}

}  // namespace zrt::runtime
