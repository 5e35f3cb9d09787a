// Fused multiply-adds of fp32 that never leave the registers, compiled once per instruction set.
#pragma once
#include <cstdint>

namespace zrt::runtime {

struct FmaKernel {
  void (*run)(int64_t steps, float* result);  // result: 2 numbers that it starts from and changes
  double flops_per_step;
};

inline constexpr int fma_lanes_v3 = 8, fma_lanes_v4 = 16;
extern const FmaKernel fma_v3, fma_v4;

}  // namespace zrt::runtime
