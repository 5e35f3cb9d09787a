#include <algorithm>
#include <numeric>

#include "runtime/passes/collectives.h"
#include "runtime/passes/emitter.h"
#include "runtime/program/block_plan.h"
#include "runtime/program/link_order.h"
#include "runtime/program/roll.h"

namespace zrt::runtime {
namespace {

using models::Mode;

Op begin_op(const StateBuffers& state, bool step = true) {
  Op op;
  op.kind = OpKind::begin;
  op.name = "begin";
  op.accesses.push_back({state.control, Role::control, Use::update, {}});
  if (step && state.loads != no_buffer) op.accesses.push_back({state.loads, Role::loads, Use::write, {}});
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

// The blocks of a stage's chunks: those between what comes from other stages and what goes to them.
struct ChunkBlocks {
  size_t first = 0, end = 0;
};
std::vector<ChunkBlocks> chunks_of(const models::Model& model) {
  std::vector<ChunkBlocks> chunks;
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    if (b == 0 || model.receives(b)) chunks.push_back({b, b});
    chunks.back().end = b + 1;
  }
  return chunks;
}

// Gives each block its slots. Outputs come earlier from the last stage to the first, too (returned_slots()).
std::vector<AliveSlots> stage_slots(const Layout& layout, const std::vector<Work>& list,
                                    const std::vector<ChunkBlocks>& chunks) {
  const Schedule& schedule = layout.stage.schedule;
  std::vector<AliveSlots> slots;
  for (size_t c = 0; c < chunks.size(); ++c) {
    const uint32_t chunk[] = {static_cast<uint32_t>(c)};
    const uint32_t alive = most_alive(list, chunk), early = layout.stage.early();
    AliveSlots of_chunk;
    of_chunk.chunk = chunk[0];
    of_chunk.activations = alive;
    of_chunk.arriving = 1 + (layout.stage.index == 0 ? early : 0);
    of_chunk.batches = std::min(alive + 1, layout.microbatches);
    of_chunk.received = std::min(alive + of_chunk.arriving, layout.microbatches);
    of_chunk.handed = handed_slots(schedule);
    of_chunk.held = schedule.kind == ScheduleKind::zb_h1
                        ? std::min(static_cast<uint32_t>(layout.stage.index) + 1, layout.microbatches)
                        : 1;
    of_chunk.returned = returned_slots(schedule, layout.stage.index, static_cast<int32_t>(c));
    slots.insert(slots.end(), chunks[c].end - chunks[c].first, of_chunk);
  }
  return slots;
}

// True where turns straddle windows. Where gradients of weights come apart a turn begins with those of the first
// microbatch of a window. Blocks whose gradients do not come apart are as many microbatches ahead as there are stages
// before this one.
bool straddles_windows(const Layout& layout, const std::vector<BlockPlan>& plans) {
  const auto ahead = static_cast<uint32_t>(layout.stage.index);
  if (layout.stage.schedule.kind != ScheduleKind::zb_h1 || layout.windows() == 1) return false;
  if (ahead % layout.reduce_every == 0) return false;
  return !std::all_of(plans.begin(), plans.end(), [](const BlockPlan& plan) { return plan.weights_apart(); });
}

// Drafts what a stage of a pipeline does in a step. Turns are of two microbatches at least: a wait for the other one of
// a pair of slots then names an op of its own, and what is sent or received beside a block is not waited for at once.
Draft schedule_stage(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& plans,
                     const StateBuffers& state) {
  const Schedule& schedule = layout.stage.schedule;
  const std::vector<Work> list = link_order(schedule, layout.stage.index);
  const std::vector<ChunkBlocks> chunks = chunks_of(*layout.model);
  Emitter emit(set, layout, plans, state, Mode::train, stage_slots(layout, list, chunks), list);
  const uint32_t turn =
      std::lcm(std::lcm(2u, static_cast<uint32_t>(schedule.group)), layout.windows() == 1 ? 1 : layout.reduce_every);
  const uint32_t period = straddles_windows(layout, plans) ? layout.microbatches : turn;  // none repeats itself
  Draft draft{"step", {}};
  draft.segments.emplace_back().ops.push_back(begin_op(state));
  for (const Turns& part : cut(roll(list, static_cast<int32_t>(period)), static_cast<int32_t>(period))) {
    DraftSegment& segment = draft.segments.emplace_back();
    segment.repeat = part.repeat;
    for (const Work& work : part.works) {
      const Index microbatch{static_cast<uint32_t>(work.microbatch), part.repeat > 1 ? period : 0};
      const auto [first, end] = chunks[static_cast<size_t>(work.chunk)];
      if (links(work.kind)) {
        const bool begins = work.kind == WorkKind::receive_input || work.kind == WorkKind::send_gradient;
        emit.link(segment, work.kind, begins ? first : end - 1, microbatch);
      } else if (work.kind == WorkKind::forward) {
        const bool reads =
            layout.documents ? work.chunk == 0 : layout.model->embeds(first) || layout.model->predicts(end - 1);
        if (reads) emit.load_batch(segment, microbatch);
        for (size_t b = first; b < end; ++b) emit.forward(segment, b, microbatch);
      } else {
        for (size_t b = end; b-- > first;) {
          const bool whole = work.kind == WorkKind::backward;
          whole ? emit.backward(segment, b, microbatch) : emit.weight_gradient(segment, b, microbatch);
        }
      }
    }
  }
  return draft;
}

}  // namespace

Draft schedule_step(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& plans,
                    const StateBuffers& state) {
  if (layout.stage.pipelined()) return schedule_stage(set, layout, plans, state);
  const uint32_t window = layout.reduce_every, windows = layout.windows();
  const uint32_t together = layout.together();
  const bool defer = window > 1 && together == 1 && layout.sharing() == Sharing::first_block;
  AliveSlots alive;
  alive.activations = alive.gradients = alive.batches = together;
  alive.first = defer ? window : together;
  Emitter emit(set, layout, plans, state, Mode::train, {alive});

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

Draft schedule_eval(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& plans,
                    const StateBuffers& state) {
  Emitter emit(set, layout, plans, state, Mode::eval, {{}});
  Draft draft{"eval", {}};
  DraftSegment& segment = draft.segments.emplace_back();
  segment.ops.push_back(begin_op(state, false));
  emit.load_batch(segment, {});
  for (size_t b = 0; b < emit.blocks(); ++b) {
    if (layout.model->receives(b)) emit.link(segment, WorkKind::receive_input, b, {});
    emit.forward(segment, b, {});
    if (layout.model->sends(b)) emit.link(segment, WorkKind::send_output, b, {});
  }
  Op share;
  share.kind = OpKind::share_control;
  place_in(set, share, layout.mesh.everyone());
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

Draft schedule_decode(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& plans,
                      const StateBuffers& state) {
  Emitter emit(set, layout, plans, state, Mode::decode, {{}});
  Draft draft{"decode", {}};
  DraftSegment& segment = draft.segments.emplace_back();
  emit.load_batch(segment, {});
  for (size_t b = 0; b < emit.blocks(); ++b) emit.forward(segment, b, {});
  return draft;
}

}  // namespace zrt::runtime
