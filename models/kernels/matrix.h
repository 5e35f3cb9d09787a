// Kernels that iterations over square matrices need beside products (gemm.h), in fp32. They run like those of
// kernels.h.
#pragma once
#include <cstdint>

#include "core/kernel.h"

namespace zrt::models {

// *scale = 1 / max(sqrt(the sum of the diagonal of x (n, n)), least): of x = y yᵀ one over the Frobenius norm of y. The
// sum is fp64, in order.
ZRT_KERNEL(inverse_root_of_trace, void(const float* x, int64_t n, float least, float* scale));
// y = scale · x over n elements; y may be x. A scale of device memory, `power` times.
ZRT_KERNEL(scale_by, void(const float* x, const float* scale, int power, float* y, int64_t n));
// y = scale · x + shift on the diagonal, (n, n); y may be x.
ZRT_KERNEL(scale_and_shift, void(const float* x, float scale, float shift, float* y, int64_t n));

}  // namespace zrt::models
