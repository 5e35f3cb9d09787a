// Sums of squares of 64-element chunks: one table per instruction set, all with the same bits. Used by add_squares and
// by tests.
#pragma once
#include <cstdint>

#include "core/isa.h"

namespace zrt::optimizer {

struct NormKernels {
  // sums[c] = the sum of the squares of elements [64 c, 64 c + 64), for `chunks` chunks; by type: fp32, bf16, fp16.
  void (*chunk_squares[3])(const void* data, int64_t chunks, double* sums);
};

extern const NormKernels norm_kernels_v3, norm_kernels_v4;
const NormKernels& norm_kernels(core::Isa isa);

}  // namespace zrt::optimizer
