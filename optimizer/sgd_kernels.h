// The SGD loop: one table per instruction set, all with the same bits.
#pragma once
#include <cstdint>

#include "core/isa.h"

namespace zrt::optimizer {

// Per-step scalars, each rounded to fp32 once.
struct SgdScalars {
  float grad_scale, decay, momentum;
  float take;  // 1 - dampening, or 1 at the first step
  float lr;
};

using SgdKernel = void (*)(const SgdScalars&, int64_t n, float* master, float* momentum_buffer, const void* grad,
                           void* weight);

enum class SgdKind : uint8_t { plain, momentum, nesterov };

struct SgdKernels {
  // [kind][gradient: fp32, bf16, fp16][weight copy: fp32, bf16, fp16, none]
  SgdKernel step[3][3][4];
};

extern const SgdKernels sgd_kernels_v3, sgd_kernels_v4;
const SgdKernels& sgd_kernels(core::Isa isa);

}  // namespace zrt::optimizer
