// Kernels for telling the order of two runs of text (models/masking.h), of few rows, one for each sample.
#pragma once
#include <cstdint>

#include "core/dtype.h"
#include "core/kernel.h"

namespace zrt::models {

using core::DType;

ZRT_KERNEL(tanh_of, void(DType type, void* x, int64_t n));                       // in place
ZRT_KERNEL(tanh_backward, void(DType type, const void* y, void* d, int64_t n));  // d = d · (1 - y²), y = tanh(x)

// The logits are (B, 2), their rows `stride` elements apart: losses[b] = weight · cross entropy with the label that the
// target of sample b's first token says, in nats; 0 where it says none. targets (B, T). d (B, 2), where not null,
// becomes the gradient times gradient_scale.
struct OrderShape {
  int64_t B = 1, T = 1, stride = 2;
};
ZRT_KERNEL(order_loss, void(DType type, const void* logits, const OrderShape& shape, const int32_t* targets,
                            double weight, float gradient_scale, double* losses, void* d));

}  // namespace zrt::models
