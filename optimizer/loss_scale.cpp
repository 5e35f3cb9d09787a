#include "optimizer/loss_scale.h"

#include <fmt/format.h>

#include "core/error.h"

namespace zrt::optimizer {

LossScale initial_loss_scale(const LossScaleParams& params) {
  return {params.initial, params.hysteresis, 0, -1};
}

void throw_at_minimum(const LossScaleParams& params) {
  throw core::NumericError(fmt::format(
      "the loss or the gradient is not finite and the loss scale is at its minimum, {}: it cannot fall further "
      "(fp16.min_loss_scale). Try bf16, a lower learning rate, a longer warm-up or gradient_clipping",
      params.minimum));
}

}  // namespace zrt::optimizer
