// Host kernels of the optimizers, and the exact norm. Element-wise kernels use IEEE operations only (no contraction,
// correctly rounded division and root), so every vector width, shard and back end gives the same bits.
#pragma once
#include <array>
#include <cstdint>

#include "core/dtype.h"
#include "optimizer/params.h"

namespace zrt::optimizer {

using core::DType;

// What changes from step to step; read from the control block.
struct AdamStep {
  float lr = 0;
  float grad_scale = 1;        // multiplies gradients: 1 / loss scale, and the clip factor
  float bias_correction1 = 1;  // 1 - beta1^t, or 1
  float bias_correction2 = 1;  // 1 - beta2^t, or 1
};

// One Adam/AdamW step over n elements (a multiple of 64), with the rule of torch.optim.AdamW:
//   w -= lr · weight_decay · w;  m, v moments;  w -= lr / bc1 · m / (sqrt(v) / sqrt(bc2) + eps)
// `master` holds the fp32 weights. When `weight` is not null, the new weights are also rounded into it (bf16 or fp16).
// Uses core::parallel_for.
void adam_update(const AdamParams& params, const AdamStep& step, int64_t n, float* master, float* moment1,
                 float* moment2, const void* grad, DType grad_type, void* weight, DType weight_type);

// A sum of squares that does not depend on order or grouping: 64-element chunks are summed in fp64 in a fixed lane
// order, and chunk sums are added exactly into a 320-bit fixed-point number (two's complement, least limb first;
// bit 0 = 2^-190). Chunks are aligned to 64 elements of the buffer, so any sharding at multiples of 64 gives equal
// bits.
struct ExactSum {
  std::array<uint64_t, 5> limbs{};
  // Number of chunks holding a NaN, an infinity or a sum too large to represent (2^95, so that 2^34 chunks fit).
  uint64_t non_finite = 0;
  void add(double chunk_sum);
  void add(const ExactSum& other);
  double value() const;  // NaN when non_finite is not 0; else rounded to nearest
};

// Adds the squares of n elements (a multiple of 64).
void add_squares(ExactSum& sum, int64_t n, const void* data, DType type);

}  // namespace zrt::optimizer
