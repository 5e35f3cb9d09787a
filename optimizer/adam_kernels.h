// The Adam loop: one table per instruction set, all with the same bits. Used by adam_update and by tests.
#pragma once
#include <cstdint>

#include "core/isa.h"

namespace zrt::optimizer {

// Per-step scalars, each rounded to fp32 once.
struct AdamScalars {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float grad_scale;
  float eps;
  float decay;      // AdamW: lr · weight_decay; Adam: weight_decay
  float step_size;  // lr / bias_correction1
  float root_bc2;   // sqrt(bias_correction2)
};

using AdamKernel = void (*)(const AdamScalars&, int64_t n, float* master, float* moment1, float* moment2,
                            const void* grad, void* weight);

struct AdamKernels {
  // [decoupled][gradient: fp32, bf16, fp16][weight copy: fp32, bf16, fp16, none]
  AdamKernel step[2][3][4];
};

inline constexpr int no_weight_copy = 3;

extern const AdamKernels adam_kernels_v3, adam_kernels_v4;
const AdamKernels& adam_kernels(core::Isa isa);

}  // namespace zrt::optimizer
