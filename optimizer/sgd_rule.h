// SGD's arithmetic (element_rules.h). The order of operations for one element; every line is one or more IEEE fp32
// operations, evaluated left to right, none contracted:
//   g = grad · grad_scale + decay · w
//   b = momentum · b + take · g
//   plain: w = w − lr · g    momentum: w = w − lr · b    Nesterov: w = w − lr · (g + momentum · b)
#pragma once
#include "core/host_device.h"
#include "optimizer/params.h"

namespace zrt::optimizer {

// Per-step numbers, each rounded to fp32 once.
struct SgdScalars {
  float grad_scale, decay, momentum;
  float take;  // 1 - dampening, or 1 at the first step
  float lr;
};

namespace {

struct SgdRule {
  using Params = SgdParams;
  using Scalars = SgdScalars;
  static constexpr int plain = 0, heavy = 1, nesterov = 2, variants = 3;
  static constexpr int states(int variant) { return variant == plain ? 0 : 1; }
  static int variant(const SgdParams& params) {
    return params.momentum == 0 ? plain : params.nesterov ? nesterov : heavy;
  }

  // PyTorch's buffer starts as the first gradient, whatever the dampening.
  template <class Decision>
  ZRT_HD static SgdScalars scalars(const SgdParams& params, const Decision& decision) {
    return {decision.grad_scale, params.weight_decay, params.momentum,
            decision.updates == 1 ? 1.0f : 1.0f - params.dampening, static_cast<float>(decision.lr * params.lr_scale)};
  }

  template <int variant>
  ZRT_HD static void apply(const SgdScalars& s, float grad, float& w, float& buffer, float&) {
    const float g = grad * s.grad_scale + s.decay * w;
    float step = g;
    if constexpr (variant != plain) {
      buffer = s.momentum * buffer + s.take * g;
      step = variant == heavy ? buffer : g + s.momentum * buffer;
    }
    w = w - s.lr * step;
  }
};

}  // namespace
}  // namespace zrt::optimizer
