// Says when a step's updates happen (memory.update_when). Weights have the same bits with each choice.
#pragma once
#include <cstdint>

namespace zrt::runtime {

enum class UpdateWhen : uint8_t {
  after_norm,  // at the end of the step, when the norm of the whole gradient is known
  // Each unit is updated as soon as its gradient of the step is complete, before that norm is known: nothing is clipped
  // and no step can be skipped.
  as_ready,
  // Each unit is updated in the next step, in front of the forward of the block before its own: gradients stay until
  // then. A program of its own, "update", updates what is left over at an evaluation, a save or an export.
  next_forward,
};

}  // namespace zrt::runtime
