// What this machine multiplies at, beside which benchmarks put what training reaches. All ranks run at once.
#pragma once
#include <string>
#include <vector>

#include "runtime/bench/bench.h"

namespace zrt::runtime {

struct GemmLibrary {
  std::string name;             // "zrt", "oneDNN 2.6.3", "OpenBLAS 0.3.21 SkylakeX"
  double flops_per_second = 0;  // over all products; 0 where it has not all of them
  int fastest_of = 0;           // products
};
struct GemmCeiling {
  double flops_per_second = 0;  // each product by the library that is fastest at it
  int products = 0;
  std::vector<GemmLibrary> libraries;  // those at hand
};

// Matrix products of the model's blocks (forward and both gradients, head included) at the run's shapes and types:
// FLOPs of one microbatch divided by the time of running each product alone, on all ranks at once. On a CPU the
// libraries take turns: zrt's own products, oneDNN, and of fp32 OpenBLAS or BLIS where the machine has one (blas.h). On
// a GPU it is what a run uses, the products of the ranks run one after the other, on random operands.
GemmCeiling gemm_ceiling(const Config& config, int rounds);
// The same with all matrices in fp32.
GemmCeiling fp32_gemm_ceiling(const Config& config, int rounds);

// FLOP/s of fused multiply-adds of fp32 in registers, on every thread of every rank.
double fma_peak(int ranks, int threads_per_rank);

// Random elements of about 1 for memory of a GPU: constant operands draw less power and run faster.
void fill_random(std::byte* to, uint64_t bytes, core::DType type);
// Of a GPU: the FLOP/s of one large product of bf16 matrices with random elements.
double matrix_rate(int rounds);

}  // namespace zrt::runtime
