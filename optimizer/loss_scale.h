// The loss scale of fp16 training: gradients are multiplied by it on their way through fp16 and divided by it before
// the update. The law is that of DeepSpeed's DynamicLossScaler, with factor 2.
// (Micikevicius et al., "Mixed Precision Training", 2018.)
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace zrt::optimizer {

// fp16.min_loss_scale = 0 stands for this: fp16's smallest normal number. With a smaller scale gradients vanish in
// fp16, and a run whose every gradient is not finite would go on for ever without an update.
inline constexpr int least_scale_power = -14;
inline constexpr double least_loss_scale = 0x1p-14;

// Named like the keys of the section fp16. fp32 and bf16 train with the static scale 1.
struct LossScaleParams {
  bool dynamic = false;
  double initial = 1;        // of a dynamic scale: 2^initial_scale_power
  int64_t window = 1000;     // clean steps after which the scale doubles
  int64_t hysteresis = 2;    // the overflow that halves the scale; those before it are only counted
  bool consecutive = false;  // any clean step forgives the counted overflows; else only doubling does
  double minimum = 1;        // at least least_loss_scale
};

// Part of what a checkpoint keeps.
struct LossScale {
  double scale = 1;
  int64_t hysteresis = 2;  // overflows left until the scale is halved
  int64_t iteration = 0, last_overflow = -1;
};

LossScale initial_loss_scale(const LossScaleParams& params);
// The scale of a run that goes on from a checkpoint: a dynamic one goes on where it was, within what `params` allow; a
// static one is that of `params`, as is the first of a dynamic one whose checkpoint was saved with a static scale.
LossScale resumed_loss_scale(const LossScaleParams& params, const LossScale& saved);

// Moves the scale after a step; `overflow`: a gradient was not finite and the step was skipped. Returns false, moving
// nothing, when the scale must fall but is at its minimum: the run cannot go on (throw_at_minimum).
[[nodiscard]] ZRT_HD inline bool update_loss_scale(const LossScaleParams& params, LossScale& state, bool overflow) {
  if (!params.dynamic) return true;
  if (overflow) {
    if (params.hysteresis != 1 && state.hysteresis != 1) {
      --state.hysteresis;
    } else if (state.scale == params.minimum) {
      return false;
    } else {
      state.scale = state.scale / 2 < params.minimum ? params.minimum : state.scale / 2;
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
  return true;
}

[[noreturn]] void throw_at_minimum(const LossScaleParams& params);  // core::NumericError

}  // namespace zrt::optimizer
