#include <fmt/format.h>

#include "runtime/passes/draft.h"

namespace zrt::runtime {
namespace {

using core::Category;
using models::Block;
using models::Mode;
using models::Shape;

// Buffers that every (block, microbatch) op of one phase shares, and the ops themselves.
class Emitter {
 public:
  Emitter(ProgramSet& set, const Layout& layout, const StateBuffers& state, Mode mode, uint32_t slots,
          uint32_t first_slots)
      : set_(set), blocks_(layout.model->blocks), state_(state), shape_(layout.shape(mode)), layout_(layout) {
    const char* phase = mode == Mode::train ? "" : mode == Mode::eval ? "eval " : "decode ";
    const uint64_t rows = static_cast<uint64_t>(shape_.rows());
    tokens_ = add(phase, "tokens", Category::staging, rows * 4, first_slots);
    if (mode != Mode::decode) targets_ = add(phase, "targets", Category::staging, rows * 4, slots);
    if (layout.device != core::DeviceKind::cpu) {
      // The host fills all batches of a program before it starts.
      Buffer staging{std::string(phase) + "batches", Category::staging, Life::reserved,
                     rows * (mode == Mode::decode ? 4 : 8), mode == Mode::train ? layout.microbatches : 1};
      staging.tier = core::Tier::host;
      staging_ = set.add(std::move(staging));
    }
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const Block& block = *blocks_[b];
      const bool last = b + 1 == blocks_.size();
      const uint64_t width = static_cast<uint64_t>(block.output_width()) * core::dtype_size(shape_.type);
      const uint64_t output =
          last ? (mode == Mode::decode ? rows * 4 * static_cast<uint64_t>(layout.model->vocab) : 0) : rows * width;
      output_.push_back(add(phase, "output of " + block.name(), Category::activations, output, slots));
      forward_workspace_.push_back(add(phase, "forward workspace of " + block.name(), Category::workspace,
                                       block.forward_workspace_bytes(shape_), 1));
      if (mode == Mode::decode) {
        cache_.push_back(
            add(phase, "cache of " + block.name(), Category::activations, block.cache_bytes(shape_), 1, Life::carried));
      }
      if (mode != Mode::train) continue;
      saved_.push_back(add(phase, "saved of " + block.name(), Category::activations, block.saved_bytes(shape_),
                           b == 0 ? first_slots : slots));
      d_output_.push_back(add(phase, "gradient of output of " + block.name(), Category::activations,
                              last ? 0 : rows * width, b == 0 ? first_slots : slots));
      backward_workspace_.push_back(add(phase, "backward workspace of " + block.name(), Category::workspace,
                                        block.backward_workspace_bytes(shape_), 1));
    }
  }

  void load_batch(DraftSegment& segment, Index microbatch, Index slot, Index first_slot) {
    Op op = make(OpKind::load_batch, load_lane, "batch", 0, microbatch);
    access(op, tokens_, Role::tokens, Use::write, first_slot);
    access(op, targets_, Role::targets, Use::write, slot);
    access(op, staging_, Role::staging, Use::write, microbatch);
    segment.ops.push_back(std::move(op));
  }

  void forward(DraftSegment& segment, size_t b, Index microbatch, Index slot, Index first_slot) {
    const OpKind kind = shape_.mode == Mode::train  ? OpKind::forward
                        : shape_.mode == Mode::eval ? OpKind::evaluate
                                                    : OpKind::decode;
    Op op = make(kind, compute_lane, "forward " + blocks_[b]->name(), b, microbatch);
    const bool last = b + 1 == blocks_.size();
    if (b == 0) {
      access(op, tokens_, Role::tokens, Use::read, first_slot);
    } else {
      access(op, output_[b - 1], Role::input, Use::read, slot);
    }
    access(op, output_[b], Role::output, Use::write, slot);
    if (!saved_.empty()) access(op, saved_[b], Role::saved, Use::write, b == 0 ? first_slot : slot);
    if (!cache_.empty()) access(op, cache_[b], Role::cache, Use::update, {});
    if (last && shape_.mode == Mode::eval) access(op, targets_, Role::targets, Use::read, slot);
    if ((last && shape_.mode == Mode::eval) || shape_.mode == Mode::decode) {
      access(op, state_.control, Role::control, Use::update, {});
    }
    access(op, forward_workspace_[b], Role::workspace, Use::write, {});
    segment.ops.push_back(std::move(op));
  }

  void backward(DraftSegment& segment, size_t b, Index microbatch, Index slot, Index first_slot) {
    Op op = make(OpKind::backward, compute_lane, "backward " + blocks_[b]->name(), b, microbatch);
    if (b == 0) {
      access(op, tokens_, Role::tokens, Use::read, first_slot);
    } else {
      if (blocks_[b]->backward_reads_input()) access(op, output_[b - 1], Role::input, Use::read, slot);
      access(op, d_output_[b - 1], Role::d_input, Use::write, b == 1 ? first_slot : slot);
    }
    if (b + 1 == blocks_.size()) {
      access(op, targets_, Role::targets, Use::read, slot);
      access(op, state_.control, Role::control, Use::update, {});
    } else {
      access(op, d_output_[b], Role::d_output, Use::read, b == 0 ? first_slot : slot);
    }
    access(op, saved_[b], Role::saved, Use::read, b == 0 ? first_slot : slot);
    access(op, backward_workspace_[b], Role::workspace, Use::write, {});
    segment.ops.push_back(std::move(op));
  }

  size_t blocks() const { return blocks_.size(); }

 private:
  BufferId add(const char* phase, const std::string& name, Category category, uint64_t bytes, uint32_t slots,
               Life life = Life::transient) {
    if (bytes == 0) return no_buffer;
    return set_.add({phase + name, category, life, bytes, slots, 0});
  }
  static void access(Op& op, BufferId buffer, Role role, Use use, Index slot) {
    if (buffer != no_buffer) op.accesses.push_back({buffer, role, use, slot});
  }
  Op make(OpKind kind, uint8_t lane, std::string name, size_t block, Index microbatch) const {
    Op op;
    op.kind = kind;
    op.lane = lane;
    op.name = std::move(name);
    op.block = static_cast<uint32_t>(block);
    op.microbatch = microbatch;
    if (kind != OpKind::load_batch) op.units = layout_.units.blocks[block];
    return op;
  }

  ProgramSet& set_;
  const std::vector<std::unique_ptr<Block>>& blocks_;
  const StateBuffers& state_;
  Shape shape_;
  const Layout& layout_;
  BufferId tokens_ = no_buffer, targets_ = no_buffer, staging_ = no_buffer;
  std::vector<BufferId> output_, saved_, d_output_, forward_workspace_, backward_workspace_, cache_;
};

Op begin_op(const StateBuffers& state) {
  Op op;
  op.kind = OpKind::begin;
  op.name = "begin";
  op.accesses.push_back({state.control, Role::control, Use::update, {}});
  return op;
}

enum class Sharing { none, first_block, elsewhere };

// Whether units with several users exist, and whether only the first block is the earlier user of them.
Sharing sharing(const Layout& layout) {
  Sharing result = Sharing::none;
  for (const optimizer::Unit& unit : layout.units.units) {
    if (unit.blocks.size() < 2) continue;
    if (unit.blocks.size() > 2 || unit.blocks[0] != 0) return Sharing::elsewhere;
    result = Sharing::first_block;
  }
  return result;
}

// All microbatches of the window block by block.
void layer_major(Emitter& emit, DraftSegment& segment, uint32_t first, uint32_t step, uint32_t window) {
  auto each = [&](auto op) {
    for (uint32_t j = 0; j < window; ++j) op(Index{first + j, step}, Index{j, 0});
  };
  each([&](Index m, Index slot) { emit.load_batch(segment, m, slot, slot); });
  for (size_t b = 0; b < emit.blocks(); ++b) {
    each([&](Index m, Index slot) { emit.forward(segment, b, m, slot, slot); });
  }
  for (size_t b = emit.blocks(); b-- > 0;) {
    each([&](Index m, Index slot) { emit.backward(segment, b, m, slot, slot); });
  }
}

// One window as turns of one microbatch each: first, repeated middle, last, so that the first can define gradients and
// the last can reduce them. With `defer`, the first block's backwards follow as turns of their own.
void microbatch_major(Emitter& emit, Draft& draft, uint32_t window_index, uint32_t windows, uint32_t window,
                      bool defer) {
  const uint32_t base = window_index * window;
  auto turns = [&](auto body) {
    auto add = [&](uint32_t first, uint32_t repeat) {
      if (repeat == 0) return;
      DraftSegment& segment = draft.segments.emplace_back();
      segment.repeat = repeat;
      segment.window = window_index;
      segment.last_window = window_index + 1 == windows;
      body(segment, Index{base + first, 1}, defer ? Index{first, 1} : Index{});
    };
    add(0, 1);
    if (window > 1) add(1, window - 2), add(window - 1, 1);
  };
  turns([&](DraftSegment& segment, Index m, Index first_slot) {
    emit.load_batch(segment, m, {}, first_slot);
    for (size_t b = 0; b < emit.blocks(); ++b) emit.forward(segment, b, m, {}, first_slot);
    for (size_t b = emit.blocks(); b-- > (defer ? 1u : 0u);) emit.backward(segment, b, m, {}, first_slot);
  });
  if (!defer) return;
  turns([&](DraftSegment& segment, Index m, Index slot) { emit.backward(segment, 0, m, {}, slot); });
}

}  // namespace

Draft schedule_step(ProgramSet& set, const Layout& layout, const StateBuffers& state) {
  const uint32_t window = layout.reduce_every, windows = layout.microbatches / window;
  const Sharing shared = sharing(layout);
  const bool by_layer = window > 1 && (layout.zero.grads == optimizer::Extent::shard || shared == Sharing::elsewhere);
  const bool defer = window > 1 && !by_layer && shared == Sharing::first_block;
  Emitter emit(set, layout, state, Mode::train, by_layer ? window : 1, by_layer || defer ? window : 1);

  Draft draft{"step", {}};
  draft.segments.emplace_back().ops.push_back(begin_op(state));
  draft.segments.back().window = ~0u;
  if (window == 1 || by_layer) {
    // The first window defines gradients and the last one ends what others hand on, so both stand for themselves.
    auto add = [&](uint32_t w, uint32_t repeat, bool last) {
      if (repeat == 0) return;
      DraftSegment& segment = draft.segments.emplace_back();
      segment.repeat = repeat;
      segment.window = w;
      segment.last_window = last;
      layer_major(emit, segment, w * window, window, window);
    };
    add(0, 1, windows == 1);
    if (windows > 1) add(1, windows - 2, false), add(windows - 1, 1, true);
  } else {
    for (uint32_t w = 0; w < windows; ++w) microbatch_major(emit, draft, w, windows, window, defer);
  }
  return draft;
}

Draft schedule_eval(ProgramSet& set, const Layout& layout, const StateBuffers& state) {
  Emitter emit(set, layout, state, Mode::eval, 1, 1);
  Draft draft{"eval", {}};
  DraftSegment& segment = draft.segments.emplace_back();
  segment.ops.push_back(begin_op(state));
  emit.load_batch(segment, {}, {}, {});
  for (size_t b = 0; b < emit.blocks(); ++b) emit.forward(segment, b, {}, {}, {});
  Op share;
  share.kind = OpKind::share_control;
  share.lane = comm_lane;
  share.name = "share control";
  share.accesses = {{state.control, Role::control, Use::read, {}}, {state.shares, Role::shares, Use::write, {}}};
  Op average;
  average.kind = OpKind::average;
  average.name = "average";
  average.accesses = {{state.shares, Role::shares, Use::read, {}}, {state.control, Role::control, Use::update, {}}};
  segment.ops.push_back(std::move(share));
  segment.ops.push_back(std::move(average));
  return draft;
}

Draft schedule_decode(ProgramSet& set, const Layout& layout, const StateBuffers& state) {
  Emitter emit(set, layout, state, Mode::decode, 1, 1);
  Draft draft{"decode", {}};
  DraftSegment& segment = draft.segments.emplace_back();
  emit.load_batch(segment, {}, {}, {});
  for (size_t b = 0; b < emit.blocks(); ++b) emit.forward(segment, b, {}, {}, {});
  return draft;
}

}  // namespace zrt::runtime
