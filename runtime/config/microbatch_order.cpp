#include "runtime/config/microbatch_order.h"

#include <fmt/format.h>

#include "core/error.h"

namespace zrt::runtime {
namespace {

class Automatic : public MicrobatchOrder {
 public:
  std::string_view name() const override { return "auto"; }
  uint32_t together(const StepGrads& grads) const override {
    return grads.whole && !grads.by_block ? 1 : grads.reduce_every;
  }
  std::vector<const MicrobatchOrder*> choices() const override { return {this, microbatch_major, layer_major}; }
};

class MicrobatchMajor : public MicrobatchOrder {
 public:
  std::string_view name() const override { return "microbatch_major"; }
  uint32_t together(const StepGrads& grads) const override {
    if (!grads.by_block || grads.reduce_every == 1) return 1;
    throw core::ConfigError(fmt::format(
        "memory.microbatch_order is microbatch_major and parallel.reduce_every is {}, but blocks of this model "
        "share parameters that not only the first and one other use: their gradients cannot be summed in the "
        "order that keeps results the same. Use memory.microbatch_order layer_major or auto, or "
        "parallel.reduce_every 1.",
        grads.reduce_every));
  }
};

class LayerMajor : public MicrobatchOrder {
 public:
  std::string_view name() const override { return "layer_major"; }
  uint32_t together(const StepGrads& grads) const override { return grads.microbatches; }
  // One reduction is enough where all microbatches of a step go through a block before the next block.
  int64_t reduce_every(int64_t accumulation, int64_t /*usual*/) const override { return accumulation; }
};

const Automatic automatic_order;
const MicrobatchMajor microbatch_major_order;
const LayerMajor layer_major_order;

}  // namespace

const MicrobatchOrder* const MicrobatchOrder::automatic = &automatic_order;
const MicrobatchOrder* const MicrobatchOrder::microbatch_major = &microbatch_major_order;
const MicrobatchOrder* const MicrobatchOrder::layer_major = &layer_major_order;

}  // namespace zrt::runtime
