// Scaling of elements: by a factor, and by a soft cap, behind which no number is larger. They run like the kernels of
// kernels.h.
#pragma once
#include <cstdint>

#include "core/dtype.h"
#include "core/kernel.h"

namespace zrt::models {

using core::DType;

// y = factor · x over n elements; y may be x.
ZRT_KERNEL(scale_elements, void(DType type, const void* x, float factor, void* y, int64_t n));
// x = cap · tanh(x / cap) over n elements (Bello et al., "Neural Combinatorial Optimization", 2016).
ZRT_KERNEL(soft_cap, void(DType type, void* x, float cap, int64_t n));

}  // namespace zrt::models
