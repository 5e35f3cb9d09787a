// Lion's arithmetic (element_rules.h). The order of operations for one element; every line is one or more IEEE fp32
// operations, evaluated left to right, none contracted:
//   g = grad · grad_scale
//   c = beta1 · m + one_minus_beta1 · g
//   w = keep · w − lr · sign(c), where sign(0) = 0
//   m = beta2 · m + one_minus_beta2 · g
#pragma once
#include "core/host_device.h"
#include "optimizer/params.h"

namespace zrt::optimizer {

// Per-step numbers, each rounded to fp32 once.
struct LionScalars {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float grad_scale;
  float keep;  // 1 - lr · weight_decay
  float lr;
};

namespace {

struct LionRule {
  using Params = LionParams;
  using Scalars = LionScalars;
  static constexpr int variants = 1;
  static constexpr int states(int) { return 1; }
  static int variant(const LionParams&) { return 0; }

  template <class Decision>
  ZRT_HD static LionScalars scalars(const LionParams& params, const Decision& decision) {
    const float lr = static_cast<float>(decision.lr * params.lr_scale);
    return {decision.beta1,
            1.0f - decision.beta1,
            decision.beta2,
            1.0f - decision.beta2,
            decision.grad_scale,
            1.0f - lr * params.weight_decay,
            lr};
  }

  template <int variant>
  ZRT_HD static void apply(const LionScalars& s, float grad, float& w, float& m, float&) {
    const float g = grad * s.grad_scale;
    const float c = s.beta1 * m + s.one_minus_beta1 * g;
    const float step = c > 0 ? s.lr : c < 0 ? -s.lr : 0.0f;
    w = s.keep * w - step;
    m = s.beta2 * m + s.one_minus_beta2 * g;
  }
};

}  // namespace
}  // namespace zrt::optimizer
