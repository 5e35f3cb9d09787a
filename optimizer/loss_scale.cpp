#include "optimizer/loss_scale.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace zrt::optimizer {

LossScale initial_loss_scale(const LossScaleParams& params) {
  return {params.initial, params.hysteresis, 0, -1};
}

LossScale resumed_loss_scale(const LossScaleParams& params, const LossScale& saved) {
  const bool was_dynamic = saved.iteration > 0;  // static scales count nothing
  if (!params.dynamic || !was_dynamic) return initial_loss_scale(params);
  LossScale scale = saved;
  scale.scale = std::max(saved.scale, params.minimum);
  scale.hysteresis = std::min(saved.hysteresis, params.hysteresis);
  return scale;
}

void throw_at_minimum(const LossScaleParams& params) {
  throw core::NumericError(fmt::format(
      "the loss or the gradient is not finite and the loss scale is at its minimum, {}: it cannot fall further "
      "(fp16.min_loss_scale). Try bf16, a lower learning rate, a longer warm-up or gradient_clipping",
      params.minimum));
}

}  // namespace zrt::optimizer
