// The ops of blocks in one phase, and the buffers that they share: activations, workspaces and batches.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/passes/draft.h"

namespace zrt::runtime {

class Emitter {
 public:
  // slots: microbatches whose activations are alive at a time; first_slots: of the first block's backward.
  Emitter(ProgramSet& set, const Layout& layout, const StateBuffers& state, models::Mode mode, uint32_t slots,
          uint32_t first_slots);

  void load_batch(DraftSegment& segment, Index microbatch);
  void forward(DraftSegment& segment, size_t b, Index microbatch);
  // In front of it the recompute, of a block that leaves out what its backward reads.
  void backward(DraftSegment& segment, size_t b, Index microbatch);
  size_t blocks() const { return blocks_.size(); }

 private:
  struct Buffers {  // of one block
    BufferId output = no_buffer, saved = no_buffer, recomputed = no_buffer, d_output = no_buffer;
    BufferId forward_workspace = no_buffer, backward_workspace = no_buffer, cache = no_buffer;
  };

  void add_training(size_t b, uint32_t slots);
  void recompute(DraftSegment& segment, size_t b, Index microbatch);
  void access(Op& op, BufferId buffer, Role role, Use use) const;  // the slot of the op's microbatch
  uint64_t width_bytes(size_t b) const;
  BufferId add(const std::string& name, core::Category category, uint64_t bytes, uint32_t slots,
               Life life = Life::transient);
  Op make(OpKind kind, uint8_t lane, std::string name, size_t block, Index microbatch) const;

  ProgramSet& set_;
  const std::vector<std::unique_ptr<models::Block>>& blocks_;
  const StateBuffers& state_;
  models::Shape shape_;
  const Layout& layout_;
  const char* phase_;
  BufferId tokens_ = no_buffer, targets_ = no_buffer, staging_ = no_buffer;
  std::vector<Buffers> buffers_;       // by block
  std::vector<Recompute> recomputes_;  // by block
};

}  // namespace zrt::runtime
