// Compiled once per instruction set, see zrt_isa_kernels().
#include "runtime/bench/fma_peak.h"

#define ZRT_FMA_JOIN2(a, b) a##b
#define ZRT_FMA_JOIN(a, b) ZRT_FMA_JOIN2(a, b)

namespace zrt::runtime {
namespace {

constexpr int fma_lanes = ZRT_FMA_JOIN(fma_lanes_, ZRT_ISA);
using FmaVector = float __attribute__((vector_size(fma_lanes * 4)));

// Keeps more sums than a fused multiply-add's latency times those that start in a cycle.
void multiply_add(int64_t steps, float* result) {
  constexpr int sums = 12;
  FmaVector sum[sums];
  for (int i = 0; i < sums; ++i) sum[i] = FmaVector{} + 1e-3f * static_cast<float>(i);
  const FmaVector x = FmaVector{} + result[0], y = FmaVector{} + result[1];
  for (int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < sums; ++i) sum[i] = sum[i] * x + y;
  }
  FmaVector total = sum[0];
  for (int i = 1; i < sums; ++i) total += sum[i];
  for (int i = 0; i < fma_lanes; ++i) result[i % 2] += total[i];
}

}  // namespace

extern const FmaKernel ZRT_FMA_JOIN(fma_, ZRT_ISA){multiply_add, 12.0 * 2 * fma_lanes};

}  // namespace zrt::runtime
