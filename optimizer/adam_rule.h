// Adam's arithmetic (element_rules.h). The order of operations for one element; every line is one or more IEEE fp32
// operations, evaluated left to right, none contracted:
//   g = grad · grad_scale
//   AdamW: w = w − decay · w          Adam: g = g + decay · w
//   m = beta1 · m + one_minus_beta1 · g
//   v = beta2 · v + one_minus_beta2 · (g · g)
//   w = w − (step_size · m) / (sqrt(v) / root_bc2 + eps)
#pragma once
#include <math.h>

#include "core/host_device.h"
#include "optimizer/params.h"

namespace zrt::optimizer {

// Per-step numbers, each rounded to fp32 once.
struct AdamScalars {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float grad_scale;
  float eps;
  float decay;      // AdamW: lr · weight_decay; Adam: weight_decay
  float step_size;  // lr / bias_correction1
  float root_bc2;   // sqrt(bias_correction2)
};

namespace {

struct AdamRule {
  using Params = AdamParams;
  using Scalars = AdamScalars;
  static constexpr int variants = 2;  // Adam and AdamW
  static constexpr int states(int) { return 2; }
  static int variant(const AdamParams& params) { return params.decoupled ? 1 : 0; }

  // `step` has grad_scale and the corrections.
  template <class Step>
  ZRT_HD static AdamScalars scalars(const AdamParams& params, const Step& step, float lr, float beta1, float beta2) {
    return {beta1,
            1.0f - beta1,
            beta2,
            1.0f - beta2,
            step.grad_scale,
            params.eps,
            params.decoupled ? lr * params.weight_decay : params.weight_decay,
            lr / step.bias_correction1,
            sqrtf(step.bias_correction2)};
  }
  template <class Decision>
  ZRT_HD static AdamScalars scalars(const AdamParams& params, const Decision& decision) {
    return scalars(params, decision, static_cast<float>(decision.lr * params.lr_scale), decision.beta1, decision.beta2);
  }

  template <int variant>
  ZRT_HD static void apply(const AdamScalars& s, float grad, float& w, float& m, float& v) {
    float g = grad * s.grad_scale;
    if constexpr (variant == 1) {
      w = w - s.decay * w;
    } else {
      g = g + s.decay * w;
    }
    m = s.beta1 * m + s.one_minus_beta1 * g;
    v = s.beta2 * v + s.one_minus_beta2 * (g * g);
    w = w - s.step_size * m / (sqrtf(v) / s.root_bc2 + s.eps);
  }
};

}  // namespace
}  // namespace zrt::optimizer
