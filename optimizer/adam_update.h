// The Adam update on its own, without a unit. Element-wise kernels use IEEE operations only (no contraction, correctly
// rounded division and root), so every vector width, shard and back end gives the same bits.
#pragma once
#include <cstdint>

#include "core/dtype.h"
#include "core/kernel.h"
#include "optimizer/params.h"

namespace zrt::optimizer {

using core::DType;

// The numbers that change from step to step.
struct AdamStep {
  float lr = 0;
  float grad_scale = 1;        // multiplies gradients: 1 / loss scale, and the clip factor
  float bias_correction1 = 1;  // 1 - beta1^t, or 1
  float bias_correction2 = 1;  // 1 - beta2^t, or 1
};

// One Adam/AdamW step over n elements (a multiple of 64), with the rule of torch.optim.AdamW:
//   w -= lr · weight_decay · w;  m, v moments;  w -= lr / bc1 · m / (sqrt(v) / sqrt(bc2) + eps)
// `master` holds the fp32 weights. When `weight` is not null, the new weights are also rounded into it (bf16 or fp16).
// At core::place(); a GPU needs arrays that are aligned to four elements.
ZRT_KERNEL(adam_update, void(const AdamParams& params, const AdamStep& step, int64_t n, float* master, float* moment1,
                             float* moment2, const void* grad, DType grad_type, void* weight, DType weight_type));

}  // namespace zrt::optimizer
