// The Lion loop: one table per instruction set, all with the same bits.
#pragma once
#include <cstdint>

#include "core/isa.h"

namespace zrt::optimizer {

// Per-step scalars, each rounded to fp32 once.
struct LionScalars {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float grad_scale;
  float keep;  // 1 - lr · weight_decay
  float lr;
};

using LionKernel = void (*)(const LionScalars&, int64_t n, float* master, float* exp_avg, const void* grad,
                            void* weight);

struct LionKernels {
  // [gradient: fp32, bf16, fp16][weight copy: fp32, bf16, fp16, none]
  LionKernel step[3][4];
};

extern const LionKernels lion_kernels_v3, lion_kernels_v4;
const LionKernels& lion_kernels(core::Isa isa);

}  // namespace zrt::optimizer
