// The batches of a phase: their buffers, the op that fills them, and the positions that blocks read of them.
#include <algorithm>

#include "runtime/passes/emitter.h"

namespace zrt::runtime {

using core::Category;
using models::Mode;

void Emitter::add_batches(const std::vector<AliveSlots>& alive) {
  const uint64_t rows = static_cast<uint64_t>(shape_.rows());
  const bool begins = layout_.model->has_embedding(), ends = layout_.model->has_head();
  const uint32_t first = std::max(alive.front().first, alive.front().batches);
  if (begins) tokens_ = add("tokens", Category::staging, rows * 4, first);
  // A stage of a pipeline that needs positions loads its batch once, for all its chunks.
  const bool together = shape_.documents && layout_.stage.pipelined();
  const uint32_t of_targets = together ? first : alive.back().batches;
  if (ends && shape_.mode != Mode::decode) targets_ = add("targets", Category::staging, rows * 4, of_targets);
  if (shape_.documents) positions_ = add("positions", Category::staging, rows * 4, first);
  if (layout_.device != core::DeviceKind::cpu && (begins || ends || shape_.documents)) {
    // The host fills all batches of a program before it starts.
    Buffer staging{std::string(phase_) + "batches", Category::staging, Life::reserved,
                   rows * (shape_.mode == Mode::decode ? 4
                           : shape_.documents          ? 12
                                                       : 8),
                   shape_.mode == Mode::train ? layout_.microbatches : 1};
    staging.tier = core::Tier::host;
    staging_ = set_.add(std::move(staging));
  }
}

void Emitter::load_batch(DraftSegment& segment, Index microbatch) {
  if (!layout_.model->has_embedding() && !layout_.model->has_head() && !shape_.documents) return;
  Op op = make(OpKind::load_batch, set_.lane(LaneKind::to_device), "batch", 0, microbatch);
  access(op, tokens_, Role::tokens, Use::write);
  access(op, targets_, Role::targets, Use::write);
  access(op, positions_, Role::positions, Use::write);
  access(op, staging_, Role::staging, Use::write);
  segment.ops.push_back(std::move(op));
}

void Emitter::read_positions(Op& op) const {
  if (blocks_[op.block]->reads_positions()) access(op, positions_, Role::positions, Use::read);
}

}  // namespace zrt::runtime
