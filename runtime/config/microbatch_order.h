// The order in which the microbatches of a step go through the blocks: what memory.microbatch_order stands for, decided
// once. Only times and memory differ.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace zrt::runtime {

// An order has to know this of a step.
struct StepGrads {
  uint32_t microbatches, reduce_every;
  bool whole;     // every rank holds whole gradients: reducing them often saves no memory
  bool by_block;  // sums keep their order only where the microbatches of a window go through a block together
};

class MicrobatchOrder {
 public:
  // automatic: layer-major inside a window of reduce_every microbatches where gradients are sharded.
  // microbatch_major: a microbatch through all blocks, then the next.
  // layer_major: all microbatches of a step through a block, then the next block, so that what a block needs is brought
  // once per direction.
  static const MicrobatchOrder *const automatic, *const microbatch_major, *const layer_major;

  virtual ~MicrobatchOrder() = default;
  // Returns its value of memory.microbatch_order.
  virtual std::string_view name() const = 0;
  // Returns how many microbatches go through a block before the next block. Throws ConfigError where this order cannot
  // keep the order of sums.
  virtual uint32_t together(const StepGrads& grads) const = 0;
  // Returns parallel.reduce_every for `accumulation` microbatches a step, where nothing else is asked for. `usual`:
  // that of the ZeRO stage.
  virtual int64_t reduce_every(int64_t /*accumulation*/, int64_t usual) const { return usual; }
  // The orders that a search may choose among, this one first.
  virtual std::vector<const MicrobatchOrder*> choices() const { return {this}; }
};

}  // namespace zrt::runtime
