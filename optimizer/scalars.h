// What the element-wise optimizers' loops need per step, each number rounded to fp32 once; by hosts and kernels alike.
#pragma once
#include <cmath>

#include "core/host_device.h"
#include "optimizer/adam_kernels.h"
#include "optimizer/adam_update.h"
#include "optimizer/lion_kernels.h"
#include "optimizer/optimizer.h"
#include "optimizer/sgd_kernels.h"

namespace zrt::optimizer {

ZRT_HD inline AdamScalars adam_scalars(const AdamParams& params, const AdamStep& step) {
  return {.beta1 = params.beta1,
          .one_minus_beta1 = 1.0f - params.beta1,
          .beta2 = params.beta2,
          .one_minus_beta2 = 1.0f - params.beta2,
          .grad_scale = step.grad_scale,
          .eps = params.eps,
          .decay = params.decoupled ? step.lr * params.weight_decay : params.weight_decay,
          .step_size = step.lr / step.bias_correction1,
          .root_bc2 = std::sqrt(step.bias_correction2)};
}

ZRT_HD inline AdamScalars adam_scalars(AdamParams params, const Decision& decision) {
  params.beta1 = decision.beta1;
  params.beta2 = decision.beta2;
  return adam_scalars(params, AdamStep{static_cast<float>(decision.lr * params.lr_scale), decision.grad_scale,
                                       decision.bias_correction1, decision.bias_correction2});
}

inline SgdKind sgd_kind(const SgdParams& params) {
  return params.momentum == 0 ? SgdKind::plain : params.nesterov ? SgdKind::nesterov : SgdKind::momentum;
}
// PyTorch's buffer starts as the first gradient, whatever the dampening.
ZRT_HD inline SgdScalars sgd_scalars(const SgdParams& params, const Decision& decision) {
  return {decision.grad_scale, params.weight_decay, params.momentum,
          decision.updates == 1 ? 1.0f : 1.0f - params.dampening, static_cast<float>(decision.lr * params.lr_scale)};
}

ZRT_HD inline LionScalars lion_scalars(const LionParams& params, const Decision& decision) {
  const float lr = static_cast<float>(decision.lr * params.lr_scale);
  return {decision.beta1,
          1.0f - decision.beta1,
          decision.beta2,
          1.0f - decision.beta2,
          decision.grad_scale,
          1.0f - lr * params.weight_decay,
          lr};
}

}  // namespace zrt::optimizer
