#include <fmt/format.h>

#include <map>
#include <optional>

#include "runtime/passes/draft.h"

namespace zrt::runtime {
namespace {

using core::Category;
using optimizer::Extent;

// Cuts `units` into buckets of at most `limit` elements (at least one unit each).
std::vector<std::vector<uint32_t>> buckets(const Layout& layout, const std::vector<uint32_t>& units, int64_t limit) {
  std::vector<std::vector<uint32_t>> result;
  int64_t elements = 0;
  for (uint32_t u : units) {
    const int64_t size = layout.units.units[u].elements;
    if (result.empty() || elements + size > limit) result.emplace_back(), elements = 0;
    result.back().push_back(u);
    elements += size;
  }
  return result;
}

std::string units_name(const Layout& layout, const std::vector<uint32_t>& units) {
  const std::string& first = layout.units.units[units.front()].name;
  return units.size() == 1 ? first : fmt::format("{} and {} more", first, units.size() - 1);
}

class ZeroPass {
 public:
  ZeroPass(ProgramSet& set, const Layout& layout, const StateBuffers& state)
      : set_(set), layout_(layout), state_(state), local_(layout.units.units.size(), no_buffer) {}

  void rewrite(Draft& draft) {
    find_window_ends(draft);
    for (DraftSegment& segment : draft.segments) {
      current_ = &segment;
      gathered_for_.reset();
      std::vector<Op> ops = std::move(segment.ops);
      segment.ops.clear();
      for (Op& op : ops) {
        const bool computes = op.kind == OpKind::forward || op.kind == OpKind::backward ||
                              op.kind == OpKind::evaluate || op.kind == OpKind::decode;
        if (computes) attach_weights(op);
        if (op.kind == OpKind::backward) attach_grads(op);
        const bool backward = op.kind == OpKind::backward;
        const auto units = op.units;
        segment.ops.push_back(std::move(op));
        if (backward) reduce_finished(units, ops_seen_++);
      }
    }
    if (draft.phase == "step") finish(draft.segments.emplace_back());
  }

 private:
  // For every unit and window: which backward (by running number) writes it first and which last.
  void find_window_ends(const Draft& draft) {
    size_t number = 0;
    for (const DraftSegment& segment : draft.segments) {
      for (const Op& op : segment.ops) {
        if (op.kind != OpKind::backward) continue;
        for (uint32_t u : op.units) {
          auto [found, inserted] = ends_.try_emplace({segment.window, u}, Ends{number, number});
          found->second.last = number;
        }
        last_backward_[segment.window] = number;
        ++number;
      }
    }
  }

  void attach_weights(Op& op) {
    if (layout_.zero.weights == Extent::full) {
      for (uint32_t u : op.units) op.accesses.push_back({state_.weight[u], Role::weight, Use::read, {}});
      return;
    }
    const bool forward = op.kind != OpKind::backward;
    const bool same_block = gathered_for_ && gathered_for_->block == op.block;
    if (!same_block || (gathered_for_->forward != forward && !layout_.reuse_at_turn)) {
      gathered_for_ = Gathered{op.block, forward, {}};
      for (const auto& bucket : buckets(layout_, op.units, layout_.gather_bucket)) {
        Op gather;
        gather.kind = OpKind::gather;
        gather.lane = comm_lane;
        gather.name = fmt::format("gather {} for {}", units_name(layout_, bucket), op.name);
        gather.block = op.block;
        gather.units = bucket;
        for (uint32_t u : bucket) {
          const optimizer::Unit& unit = layout_.units.units[u];
          const BufferId full =
              set_.add({fmt::format("gathered {} for {}", unit.name, op.name), Category::gathered, Life::transient,
                        static_cast<uint64_t>(unit.elements) * core::dtype_size(layout_.compute)});
          gathered_for_->buffers[u] = full;
          gather.accesses.push_back({state_.weight[u], Role::weight, Use::read, {}});
          gather.accesses.push_back({full, Role::full_state, Use::write, {}});
        }
        current_->ops.push_back(std::move(gather));
      }
    }
    gathered_for_->forward = forward;
    for (uint32_t u : op.units) {
      op.accesses.push_back({gathered_for_->buffers.at(u), Role::weight, Use::read, {}});
    }
  }

  void attach_grads(Op& op) {
    for (uint32_t u : op.units) {
      BufferId& local = local_[u];
      if (local == no_buffer) {
        const optimizer::Unit& unit = layout_.units.units[u];
        local = layout_.reduces_in_place()
                    ? state_.grad[u]
                    : set_.add({"local grad of " + unit.name, Category::comm, Life::transient,
                                static_cast<uint64_t>(unit.elements) * core::dtype_size(layout_.local_grad)});
      }
      const bool first = ends_.at({current_->window, u}).first == ops_seen_;
      op.accumulate.push_back(first ? 0 : 1);
      op.accesses.push_back({local, Role::local_grad, first ? Use::write : Use::update, {}});
    }
  }

  // Units whose last backward of the window was number `number` wait to be reduced: until a bucket is full where
  // gradients are resident, not at all where they are transient.
  void reduce_finished(const std::vector<uint32_t>& units, size_t number) {
    const uint32_t window = current_->window;
    for (uint32_t u : units) {
      if (ends_.at({window, u}).last != number) continue;
      pending_.push_back(u);
      pending_elements_ += layout_.units.units[u].elements;
    }
    const bool flush = !layout_.reduces_in_place() || last_backward_.at(window) == number ||
                       pending_elements_ >= layout_.reduce_bucket;
    if (!flush || pending_.empty()) return;
    for (const auto& bucket : buckets(layout_, pending_, layout_.reduce_bucket)) {
      Op op;
      op.kind = OpKind::reduce_grad;
      op.lane = comm_lane;
      op.name = "reduce " + units_name(layout_, bucket);
      op.units = bucket;
      const bool accumulate = window > 0;
      for (uint32_t u : bucket) {
        op.accumulate.push_back(accumulate ? 1 : 0);
        if (layout_.reduces_in_place()) {
          op.accesses.push_back({state_.grad[u], Role::local_grad, Use::update, {}});
          continue;
        }
        op.accesses.push_back({local_[u], Role::local_grad, Use::read, {}});
        op.accesses.push_back({state_.grad[u], Role::grad, accumulate ? Use::update : Use::write, {}});
      }
      current_->ops.push_back(std::move(op));
    }
    pending_.clear();
    pending_elements_ = 0;
  }

  // Norm, decision and update; then whole gradients or weights where the strategy keeps them whole.
  void finish(DraftSegment& segment) {
    segment.window = ~0u;
    std::vector<uint32_t> all(layout_.units.units.size());
    for (uint32_t u = 0; u < all.size(); ++u) all[u] = u;
    auto push = [&](OpKind kind, uint8_t lane, std::string name, std::vector<uint32_t> units,
                    std::vector<Access> accesses) {
      Op op;
      op.kind = kind;
      op.lane = lane;
      op.name = std::move(name);
      op.units = std::move(units);
      op.accesses = std::move(accesses);
      segment.ops.push_back(std::move(op));
    };
    for (uint32_t u : all) {
      push(OpKind::norm, compute_lane, "norm " + layout_.units.units[u].name, {u},
           {{state_.grad[u], Role::grad, Use::read, {}}, {state_.control, Role::control, Use::update, {}}});
    }
    push(OpKind::share_control, comm_lane, "share control", {},
         {{state_.control, Role::control, Use::read, {}}, {state_.shares, Role::shares, Use::write, {}}});
    push(OpKind::decide, compute_lane, "decide", {},
         {{state_.shares, Role::shares, Use::read, {}}, {state_.control, Role::control, Use::update, {}}});
    if (layout_.zero.states == Extent::full) {
      for (const auto& bucket : buckets(layout_, all, layout_.gather_bucket)) {
        std::vector<Access> accesses;
        for (uint32_t u : bucket) accesses.push_back({state_.grad[u], Role::full_state, Use::update, {}});
        push(OpKind::gather_grad, comm_lane, "gather grad " + units_name(layout_, bucket), bucket, std::move(accesses));
      }
    }
    add_updates(segment, set_, layout_, state_);
    if (layout_.zero.weights == Extent::full && layout_.zero.states == Extent::shard) {
      for (const auto& bucket : buckets(layout_, all, layout_.gather_bucket)) {
        std::vector<Access> accesses;
        for (uint32_t u : bucket) accesses.push_back({state_.weight[u], Role::full_state, Use::update, {}});
        push(OpKind::gather, comm_lane, "gather updated " + units_name(layout_, bucket), bucket, std::move(accesses));
      }
    }
  }

  struct Ends {
    size_t first, last;
  };
  struct Gathered {
    uint32_t block;
    bool forward;
    std::map<uint32_t, BufferId> buffers;
  };
  ProgramSet& set_;
  const Layout& layout_;
  const StateBuffers& state_;
  std::vector<BufferId> local_;  // by unit
  std::map<std::pair<uint32_t, uint32_t>, Ends> ends_;
  std::map<uint32_t, size_t> last_backward_;
  std::optional<Gathered> gathered_for_;
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
