#include "optimizer/loss_scale.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace zrt::optimizer {

LossScale initial_loss_scale(const LossScaleParams& params) {
  return {params.initial, params.hysteresis, 0, -1};
}

void update_loss_scale(const LossScaleParams& params, LossScale& state, bool overflow) {
  if (!params.dynamic) return;
  if (overflow) {
    if (params.hysteresis != 1 && state.hysteresis != 1) {
      --state.hysteresis;
    } else if (state.scale == params.minimum) {
      throw core::NumericError(
          fmt::format("the gradient is not finite and the loss scale is at its minimum, {}: it cannot fall further "
                      "(fp16.min_loss_scale). Try bf16, a lower learning rate, a longer warm-up or gradient_clipping.",
                      params.minimum));
    } else {
      state.scale = std::max(state.scale / 2, params.minimum);
    }
    state.last_overflow = state.iteration;
  } else {
    if (params.consecutive) state.hysteresis = params.hysteresis;
    const int64_t clean = state.iteration - state.last_overflow - 1;
    if (clean > 0 && clean % params.window == 0) {
      state.hysteresis = params.hysteresis;
      state.scale *= 2;
    }
  }
  ++state.iteration;
}

}  // namespace zrt::optimizer
