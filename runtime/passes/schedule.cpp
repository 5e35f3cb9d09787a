#include <fmt/format.h>

#include "core/error.h"
#include "runtime/passes/emitter.h"

namespace zrt::runtime {
namespace {

using models::Mode;

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

// How many microbatches go through the blocks block by block; 1: each goes through all blocks alone.
uint32_t by_layer(const Layout& layout, Sharing shared) {
  if (layout.order == MicrobatchOrder::layer_major) return layout.microbatches;
  const bool alone = layout.order == MicrobatchOrder::microbatch_major || layout.zero.grads == optimizer::Extent::full;
  if (!alone || layout.reduce_every == 1) return layout.reduce_every;
  if (shared != Sharing::elsewhere) return 1;
  if (layout.order == MicrobatchOrder::automatic) return layout.reduce_every;
  throw core::ConfigError(fmt::format(
      "memory.microbatch_order is microbatch_major and parallel.reduce_every is {}, but blocks of this model "
      "share parameters that not only the first and one other use: their gradients cannot be summed in the "
      "order that keeps results the same. Use memory.microbatch_order layer_major or automatic, or "
      "parallel.reduce_every 1.",
      layout.reduce_every));
}

// `count` microbatches block by block.
void layer_major(Emitter& emit, DraftSegment& segment, uint32_t first, uint32_t step, uint32_t count) {
  auto each = [&](auto op) {
    for (uint32_t j = 0; j < count; ++j) op(Index{first + j, step}, Index{j, 0});
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
void microbatch_major(Emitter& emit, Draft& draft, uint32_t base, uint32_t window, bool defer) {
  auto turns = [&](auto body) {
    auto add = [&](uint32_t first, uint32_t repeat) {
      if (repeat == 0) return;
      DraftSegment& segment = draft.segments.emplace_back();
      segment.repeat = repeat;
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
  const uint32_t window = layout.reduce_every, windows = layout.windows();
  const Sharing shared = sharing(layout);
  const uint32_t together = by_layer(layout, shared);
  const bool defer = window > 1 && together == 1 && shared == Sharing::first_block;
  Emitter emit(set, layout, state, Mode::train, together, defer ? window : together);

  Draft draft{"step", {}};
  draft.segments.emplace_back().ops.push_back(begin_op(state));
  if (together == 1 && window > 1) {
    for (uint32_t w = 0; w < windows; ++w) microbatch_major(emit, draft, w * window, window, defer);
    return draft;
  }
  // What comes first defines gradients and what comes last ends what others hand on, so both stand for themselves.
  const uint32_t turns = layout.microbatches / together;
  auto add = [&](uint32_t turn, uint32_t repeat) {
    if (repeat == 0) return;
    DraftSegment& segment = draft.segments.emplace_back();
    segment.repeat = repeat;
    layer_major(emit, segment, turn * together, together, together);
  };
  add(0, 1);
  if (turns > 1) add(1, turns - 2), add(turns - 1, 1);
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
