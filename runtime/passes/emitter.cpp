#include "runtime/passes/emitter.h"

namespace zrt::runtime {

using core::Category;
using models::Block;
using models::Mode;

Emitter::Emitter(ProgramSet& set, const Layout& layout, const StateBuffers& state, Mode mode, uint32_t slots,
                 uint32_t first_slots)
    : set_(set),
      blocks_(layout.model->blocks),
      state_(state),
      shape_(layout.shape(mode)),
      layout_(layout),
      phase_(mode == Mode::train  ? ""
             : mode == Mode::eval ? "eval "
                                  : "decode "),
      buffers_(blocks_.size()),
      recomputes_(blocks_.size(), Recompute::none) {
  const uint64_t rows = static_cast<uint64_t>(shape_.rows());
  tokens_ = add("tokens", Category::staging, rows * 4, first_slots);
  if (mode != Mode::decode) targets_ = add("targets", Category::staging, rows * 4, slots);
  if (layout.device != core::DeviceKind::cpu) {
    // The host fills all batches of a program before it starts.
    Buffer staging{std::string(phase_) + "batches", Category::staging, Life::reserved,
                   rows * (mode == Mode::decode ? 4 : 8), mode == Mode::train ? layout.microbatches : 1};
    staging.tier = core::Tier::host;
    staging_ = set.add(std::move(staging));
  }
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = *blocks_[b];
    const bool last = b + 1 == blocks_.size();
    const uint64_t logits = mode == Mode::decode ? rows * 4 * static_cast<uint64_t>(layout.model->vocab) : 0;
    buffers_[b].output = add("output of " + block.name(), Category::activations, last ? logits : width_bytes(b), slots);
    buffers_[b].forward_workspace = add("forward workspace of " + block.name(), Category::workspace,
                                        block.forward_workspace_bytes(layout.shape(mode, b)), 1);
    if (mode == Mode::decode) {
      buffers_[b].cache =
          add("cache of " + block.name(), Category::activations, block.cache_bytes(shape_), 1, Life::carried);
    }
    if (mode == Mode::train) add_training(b, b == 0 ? first_slots : slots);
  }
}

void Emitter::add_training(size_t b, uint32_t slots) {
  const Block& block = *blocks_[b];
  const models::Shape shape = layout_.shape(Mode::train, b);
  const Recompute how = recomputes_[b] = layout_.recompute(b);
  if (how == Recompute::full) {
    buffers_[b].saved = add("recompute of " + block.name(), Category::recompute, block.saved_bytes(shape), 1);
  } else {
    buffers_[b].saved = add("saved of " + block.name(), Category::activations, block.saved_bytes(shape), slots);
  }
  if (how == Recompute::selective) {
    buffers_[b].recomputed = add("recompute of " + block.name(), Category::recompute, block.recomputed_bytes(shape), 1);
  }
  const bool last = b + 1 == blocks_.size();
  buffers_[b].d_output =
      add("gradient of output of " + block.name(), Category::activations, last ? 0 : width_bytes(b), slots);
  buffers_[b].backward_workspace =
      add("backward workspace of " + block.name(), Category::workspace, block.backward_workspace_bytes(shape), 1);
}

void Emitter::load_batch(DraftSegment& segment, Index microbatch) {
  Op op = make(OpKind::load_batch, set_.lane(LaneKind::to_device), "batch", 0, microbatch);
  access(op, tokens_, Role::tokens, Use::write);
  access(op, targets_, Role::targets, Use::write);
  access(op, staging_, Role::staging, Use::write);
  segment.ops.push_back(std::move(op));
}

void Emitter::forward(DraftSegment& segment, size_t b, Index microbatch) {
  const Mode mode = shape_.mode;
  const OpKind kind = mode == Mode::train ? OpKind::forward : mode == Mode::eval ? OpKind::evaluate : OpKind::decode;
  Op op = make(kind, compute_lane, "forward " + blocks_[b]->name(), b, microbatch);
  const bool last = b + 1 == blocks_.size();
  if (b == 0) {
    access(op, tokens_, Role::tokens, Use::read);
  } else {
    access(op, buffers_[b - 1].output, Role::input, Use::read);
  }
  access(op, buffers_[b].output, Role::output, Use::write);
  access(op, buffers_[b].saved, Role::saved, Use::write);
  access(op, buffers_[b].recomputed, Role::recomputed, Use::write);
  access(op, buffers_[b].cache, Role::cache, Use::update);
  if (last && mode == Mode::eval) access(op, targets_, Role::targets, Use::read);
  if ((last && mode == Mode::eval) || mode == Mode::decode) {
    access(op, state_.control, Role::control, Use::update);
  }
  access(op, buffers_[b].forward_workspace, Role::workspace, Use::write);
  segment.ops.push_back(std::move(op));
}

void Emitter::recompute(DraftSegment& segment, size_t b, Index microbatch) {
  Op op = make(OpKind::recompute, compute_lane, "recompute " + blocks_[b]->name(), b, microbatch);
  access(op, buffers_[b - 1].output, Role::input, Use::read);
  if (blocks_[b]->recompute_writes_output()) access(op, buffers_[b].output, Role::output, Use::write);
  const Use saved = recomputes_[b] == Recompute::full ? Use::write : Use::read;
  access(op, buffers_[b].saved, Role::saved, saved);
  access(op, buffers_[b].recomputed, Role::recomputed, Use::write);
  access(op, buffers_[b].forward_workspace, Role::workspace, Use::write);
  segment.ops.push_back(std::move(op));
}

void Emitter::backward(DraftSegment& segment, size_t b, Index microbatch) {
  if (recomputes_[b] != Recompute::none) recompute(segment, b, microbatch);
  Op op = make(OpKind::backward, compute_lane, "backward " + blocks_[b]->name(), b, microbatch);
  if (b == 0) {
    access(op, tokens_, Role::tokens, Use::read);
  } else {
    if (blocks_[b]->backward_reads_input()) access(op, buffers_[b - 1].output, Role::input, Use::read);
    access(op, buffers_[b - 1].d_output, Role::d_input, Use::write);
  }
  if (b + 1 == blocks_.size()) {
    access(op, targets_, Role::targets, Use::read);
    access(op, state_.control, Role::control, Use::update);
  } else {
    access(op, buffers_[b].d_output, Role::d_output, Use::read);
  }
  access(op, buffers_[b].saved, Role::saved, Use::read);
  access(op, buffers_[b].recomputed, Role::recomputed, Use::read);
  access(op, buffers_[b].backward_workspace, Role::workspace, Use::write);
  segment.ops.push_back(std::move(op));
}

void Emitter::access(Op& op, BufferId buffer, Role role, Use use) const {
  if (buffer == no_buffer) return;
  op.accesses.push_back({buffer, role, use, op.microbatch.modulo(set_.buffers[buffer].slots)});
}

uint64_t Emitter::width_bytes(size_t b) const {
  return static_cast<uint64_t>(shape_.rows()) * static_cast<uint64_t>(blocks_[b]->output_width()) *
         core::dtype_size(shape_.type);
}

BufferId Emitter::add(const std::string& name, Category category, uint64_t bytes, uint32_t slots, Life life) {
  if (bytes == 0) return no_buffer;
  return set_.add({phase_ + name, category, life, bytes, slots, 0});
}

Op Emitter::make(OpKind kind, uint8_t lane, std::string name, size_t block, Index microbatch) const {
  Op op;
  op.kind = kind;
  op.lane = lane;
  op.name = std::move(name);
  op.block = static_cast<uint32_t>(block);
  op.microbatch = microbatch;
  if (kind != OpKind::load_batch) op.units = layout_.units.blocks[block];
  return op;
}

}  // namespace zrt::runtime
