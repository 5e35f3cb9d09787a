// Says when a step's updates happen (memory.update_when). Weights have the same bits with each choice.
#pragma once
#include <cstdint>

namespace zrt::runtime {

enum class UpdateWhen : uint8_t {
  after_norm,  // at the end of the step, when the norm of the whole gradient is known
  // Each unit as soon as its gradient of the step is complete, before that norm is known: nothing is clipped and no
  // step can be skipped.
  as_ready,
  // In the next step, each unit in front of the forward of the block before its own: gradients stay until then. What is
  // left over at an evaluation, a save or an export is updated by a program of its own, "update".
  next_forward,
};

}  // namespace zrt::runtime
