// The ops of blocks in one phase, and the buffers that they share: activations, workspaces and batches.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/passes/draft.h"
#include "runtime/passes/slot_pools.h"
#include "runtime/program/block_plan.h"

namespace zrt::runtime {

// Microbatches of which something is alive at a time.
struct AliveSlots {
  uint32_t chunk = 0;        // of a stage of a pipeline
  uint32_t activations = 1;  // from forward to backward
  uint32_t first = 1;        // of the embedding, whose backwards may stand behind all others
  uint32_t gradients = 1;    // of outputs
  uint32_t batches = 1;
  uint32_t received = 1;  // inputs from another stage of a pipeline
  uint32_t arriving = 1;  // inputs from another stage, before their forward
  uint32_t handed = 1;    // outputs that are sent, and gradients of inputs
  uint32_t returned = 1;  // gradients of outputs that are sent
  uint32_t held = 1;      // from the input half of a backward to its weight half
};

class Emitter {
 public:
  // `alive`: by block, or for all; `list`: what a stage of a pipeline does in a step.
  Emitter(ProgramSet& set, const Layout& layout, const std::vector<BlockPlan>& plans, const StateBuffers& state,
          models::Mode mode, const std::vector<AliveSlots>& alive, const std::vector<Work>& list = {});

  void load_batch(DraftSegment& segment, Index microbatch);
  // Adds a message (links(kind)): the block hands something over a border of the stage, or gets it there.
  void link(DraftSegment& segment, WorkKind kind, size_t block, Index microbatch) const;
  void forward(DraftSegment& segment, size_t b, Index microbatch);
  // Adds the recompute in front of it, for a block that leaves out what its backward reads.
  void backward(DraftSegment& segment, size_t b, Index microbatch);
  // Adds the gradients of weights that backward has left out, where these come apart.
  void weight_gradient(DraftSegment& segment, size_t b, Index microbatch);
  size_t blocks() const { return blocks_.size(); }

 private:
  struct Buffers {  // of one block
    BufferId output = no_buffer, saved = no_buffer, recomputed = no_buffer, held = no_buffer, d_output = no_buffer;
    BufferId received = no_buffer, d_received = no_buffer;  // input from another stage, and its gradient
    BufferId forward_workspace = no_buffer, backward_workspace = no_buffer, cache = no_buffer;
    std::vector<BufferId> ports, d_ports;  // by port; none inside a run of parts
    std::vector<BufferId> again;           // ports as a backward has them, perhaps the same
  };

  void add_batches(const std::vector<AliveSlots>& alive);
  void add_training(size_t b, const AliveSlots& alive);
  // Adds a buffer that stays from a forward to its backward, meanwhile resident in `tier`. Chunks share it where that
  // is the device.
  BufferId keep(const char* kind, size_t b, core::Tier tier, uint64_t bytes, uint32_t slots, uint32_t spare = 0);
  // Brings together what ranks that share a block have each received a share of, in front of the block's op.
  void gather_received(DraftSegment& segment, size_t block, BufferId buffer, Role role, Index microbatch) const;
  // An embedding has no input: these return no_buffer for it.
  BufferId input_of(size_t b) const { return at_border(b) ? buffers_[b].received : buffers_[b - 1].output; }
  BufferId d_input_of(size_t b) const { return at_border(b) ? buffers_[b].d_received : buffers_[b - 1].d_output; }
  bool at_border(size_t b) const { return layout_.model->embeds(b) || layout_.model->receives(b); }
  // Buffers for the ports at the ends of runs, and for those that runs of a backward read again; `name`: of one of
  // them; `held`: slots of gradients that the weight half of a backward reads.
  std::vector<BufferId> add_ports(size_t b, const std::vector<models::Parts>& runs, const std::string& name,
                                  const std::vector<models::Parts>& backwards, uint32_t held);
  BufferId add_port(size_t b, size_t port, const std::string& name, uint32_t slots);
  std::string run_name(const char* what, size_t b, models::Parts run, models::Parts whole) const;
  void forward_run(DraftSegment& segment, size_t b, Index microbatch, models::Parts run, models::Parts whole);
  void backward_run(DraftSegment& segment, size_t b, Index microbatch, const BackwardRun& run);
  void recompute(DraftSegment& segment, size_t b, Index microbatch);
  // Makes a port again that a backward reads and that nobody has kept.
  void make_again(DraftSegment& segment, size_t b, Index microbatch, size_t port);
  // Adds accesses to the ports that a run of parts takes from the run before it and hands to the one behind it.
  void access_ports(Op& op, const std::vector<BufferId>& ports, Role role, size_t taken, size_t handed) const;
  // Adds reads of the gradients of what parts hand on, for those of weights.
  void read_brought(Op& op, size_t b, models::Parts run) const;
  // Adds what ranks give each other of the ports that a part makes, in `buffers`, or of their gradients.
  void exchange(DraftSegment& segment, size_t b, Index microbatch, size_t part, const std::vector<BufferId>& buffers,
                bool gradients);
  void access(Op& op, BufferId buffer, Role role, Use use) const;  // the slot of the op's microbatch
  void read_positions(Op& op) const;                               // where its block does
  models::Shape shape_of(size_t b) const { return layout_.shape(shape_.mode, b); }
  uint64_t width_bytes(size_t b) const;
  BufferId add(const std::string& name, core::Category category, uint64_t bytes, uint32_t slots,
               Life life = Life::transient);
  Op make(OpKind kind, uint8_t lane, std::string name, size_t block, Index microbatch) const;

  ProgramSet& set_;
  const std::vector<std::shared_ptr<const models::Block>>& blocks_;
  const StateBuffers& state_;
  models::Shape shape_;
  const Layout& layout_;
  const char* phase_;
  SlotPools pools_;
  std::vector<uint32_t> chunk_;  // by block
  BufferId tokens_ = no_buffer, targets_ = no_buffer, positions_ = no_buffer, staging_ = no_buffer;
  std::vector<Buffers> buffers_;         // by block
  const std::vector<BlockPlan>& plans_;  // by block: what its ops do
};

}  // namespace zrt::runtime
