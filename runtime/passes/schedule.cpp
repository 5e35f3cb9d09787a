#include "runtime/passes/collectives.h"
#include "runtime/passes/emitter.h"
#include "runtime/program/roll.h"

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

// Adds a list of works, of microbatches from `base`. What comes first defines gradients and what comes last ends what
// others hand on, so that first and last turns of `period` microbatches stand for themselves.
void add_works(Emitter& emit, Draft& draft, const std::vector<Work>& list, uint32_t base, uint32_t period) {
  const auto turns = static_cast<int32_t>(period);
  for (const Turns& part : cut(roll(list, turns), turns)) {
    DraftSegment& segment = draft.segments.emplace_back();
    segment.repeat = part.repeat;
    for (const Work& work : part.works) {
      const Index microbatch{base + static_cast<uint32_t>(work.microbatch), period};
      const auto block = static_cast<size_t>(work.chunk);
      if (work.kind == WorkKind::load) emit.load_batch(segment, microbatch);
      if (work.kind == WorkKind::forward) emit.forward(segment, block, microbatch);
      if (work.kind == WorkKind::backward) emit.backward(segment, block, microbatch);
    }
  }
}

}  // namespace

Draft schedule_step(ProgramSet& set, const Layout& layout, const StateBuffers& state) {
  const uint32_t window = layout.reduce_every, windows = layout.windows();
  const uint32_t together = layout.together();
  const bool defer = window > 1 && together == 1 && layout.sharing() == Sharing::first_block;
  Emitter emit(set, layout, state, Mode::train, together, defer ? window : together);

  Draft draft{"step", {}};
  draft.segments.emplace_back().ops.push_back(begin_op(state));
  BlockOrder blocks{static_cast<int32_t>(emit.blocks()), static_cast<int32_t>(layout.microbatches),
                    static_cast<int32_t>(together), defer};
  if (together > 1 || window == 1) {
    add_works(emit, draft, order(blocks), 0, together);
    return draft;
  }
  blocks.microbatches = static_cast<int32_t>(window);
  const std::vector<Work> list = order(blocks);
  for (uint32_t w = 0; w < windows; ++w) add_works(emit, draft, list, w * window, 1);
  return draft;
}

Draft schedule_eval(ProgramSet& set, const Layout& layout, const StateBuffers& state) {
  Emitter emit(set, layout, state, Mode::eval, 1, 1);
  Draft draft{"eval", {}};
  DraftSegment& segment = draft.segments.emplace_back();
  segment.ops.push_back(begin_op(state));
  emit.load_batch(segment, {});
  for (size_t b = 0; b < emit.blocks(); ++b) emit.forward(segment, b, {});
  Op share;
  share.kind = OpKind::share_control;
  place_in(set, share, GroupKind::data);
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
  emit.load_batch(segment, {});
  for (size_t b = 0; b < emit.blocks(); ++b) emit.forward(segment, b, {});
  return draft;
}

}  // namespace zrt::runtime
