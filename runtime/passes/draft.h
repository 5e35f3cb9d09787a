// A program while passes work on it: segments hold their ops, so that a pass can insert and reorder.
#pragma once
#include <cstdint>
#include <vector>

#include "runtime/ops/spec.h"
#include "runtime/program/block_plan.h"
#include "runtime/program/layout.h"
#include "runtime/program/program.h"
#include "runtime/program/state_buffers.h"

namespace zrt::runtime {

struct DraftSegment {
  std::vector<Op> ops;
  uint32_t repeat = 1;
};

struct Draft {
  std::string phase;
  std::vector<DraftSegment> segments;
};

// The draft as a program; segments without ops are left out. Ops wait for each other by their numbers in it.
Program flatten(const Draft& draft);

// True where two ops must keep their order: one writes what the other touches.
bool conflict(const Op& a, const Op& b);

inline constexpr uint8_t compute_lane = 0;  // every program has it; others are made on first use (ProgramSet::lane)
inline bool computes(const Op& op) {
  return runs_block(op.kind);
}
inline bool works(const Op& op) {
  return spec(op.kind).works;
}

// Adds the buffers of the model states: weights always, the rest when training.
StateBuffers add_state(ProgramSet& set, const Layout& layout, bool training);

// Forward and backward of every (block, microbatch) of a step, with their activations and workspaces, and recomputes in
// front of the backwards that need one. In automatic order microbatches of a window run one after the other when
// gradients are resident, else block by block, so that the gradients of one block at a time are in flight. With
// microbatches one after the other, a first block that shares a unit with a later one (a tied embedding) runs its
// backwards at the end of the window: all orders then sum gradients alike, to the bit. Throws ConfigError where other
// blocks share units, which no microbatch-major order can do.
Draft schedule_step(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& blocks,
                    const StateBuffers& state);
Draft schedule_eval(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& blocks,
                    const StateBuffers& state);
Draft schedule_decode(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& blocks,
                      const StateBuffers& state);

// Attaches weights and gradients to forwards and backwards, and inserts what the strategy asks for: gathers, reductions
// and the updates, when Layout::update_when has them happen. Throws ConfigError where the optimizer cannot do that.
void apply_zero(Draft& draft, ProgramSet& set, const Layout& layout, const StateBuffers& state);

// Adds the updates of units with all that the optimizer needs for them. Ranks own the units that are refined one after
// the other, from `first_owner` on.
void add_updates(DraftSegment& segment, ProgramSet& set, const Layout& layout, const StateBuffers& state,
                 const std::vector<uint32_t>& units, uint32_t first_owner);
// Adds for each of the units, none of which is refined, the optimizer's rounds of sums, then its update.
void add_plain_updates(DraftSegment& segment, ProgramSet& set, const Layout& layout, const StateBuffers& state,
                       const std::vector<uint32_t>& units);

Draft make_init(const Layout& layout, const StateBuffers& state, bool load);
// Brings every unit's logical fp32 weights together, one unit at a time, and exports them.
Draft make_export(ProgramSet& set, const Layout& layout, const StateBuffers& state);
// Copies what this rank adds to a checkpoint to the host tier, into buffers that keep their bytes until the next save.
// Each rank takes its shard of every unit, whatever it holds: no communication, and the same bytes on all ranks.
Draft make_save(ProgramSet& set, const Layout& layout, StateBuffers& state);

// Moves gathers in front of earlier computations, over the borders of segments and turns, as far as the layout's limits
// allow: gathers ahead of their use, and in all.
void prefetch(Draft& draft, const ProgramSet& set, const Layout& layout);

// Makes the updates that a step has left to the next one, where there is none.
Draft make_update(ProgramSet& set, const Layout& layout, const StateBuffers& state);

// Brings whole weights up to date on all ranks that updated a shard of them.
Draft make_refresh(ProgramSet& set, const Layout& layout, const StateBuffers& state);

// Keeps communication from running ahead of its place in the program, so that memory stays bounded, and adds the waits
// that make every read see its write and every write follow the reads before it.
void add_waits(Draft& draft, const ProgramSet& set, const Layout& layout);

}  // namespace zrt::runtime
