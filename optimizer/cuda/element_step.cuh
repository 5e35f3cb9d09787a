// The loop of the element-wise optimizers: one thread updates four neighbouring elements. A rule brings the arithmetic:
//   states: how many it keeps, at most 2;  skip(): whether the step is skipped;  scalars(): numbers of the step;
//   apply(scalars, g, w, s0, s1): one element.
// For files compiled without contraction (EXACT), whose bits are those of the host's kernels.
#pragma once
#include <cuda_runtime.h>

#include "core/cuda/launch.cuh"
#include "core/error.h"
#include "optimizer/scalars.h"
#include "optimizer/update_kernel.h"

namespace zrt::optimizer::cuda {
namespace {

constexpr int quad = 4;  // elements of a thread
constexpr int step_threads = 256;

struct StepArrays {
  float* master;
  float* states[2];
  const void* grad;
  void* weight;
};

__device__ inline void load_quad(const float* from, int64_t i, float (&to)[quad]) {
  const float4 x = reinterpret_cast<const float4*>(from)[i];
  to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}
__device__ inline void store_quad(const float (&from)[quad], int64_t i, float* to) {
  reinterpret_cast<float4*>(to)[i] = make_float4(from[0], from[1], from[2], from[3]);
}

template <class Half>
struct alignas(8) Halves {
  Half at[quad];
};
template <class Half>
__device__ inline void load_quad(const Half* from, int64_t i, float (&to)[quad]) {
  const auto x = __builtin_bit_cast(Halves<Half>, reinterpret_cast<const uint2*>(from)[i]);
  for (int k = 0; k < quad; ++k) to[k] = core::widen(x.at[k]);
}
template <class Half>
__device__ inline void store_quad(const float (&from)[quad], int64_t i, Half* to) {
  Halves<Half> x;
  for (int k = 0; k < quad; ++k) core::narrow(from[k], x.at[k]);
  reinterpret_cast<uint2*>(to)[i] = __builtin_bit_cast(uint2, x);
}

// Elements are asked for before it is known whether they are needed: the two latencies overlap.
template <class Rule, class Grad, class Weight>
__global__ void __launch_bounds__(step_threads) step_kernel(Rule rule, int64_t quads, StepArrays arrays) {
  const int64_t i = int64_t{blockIdx.x} * step_threads + threadIdx.x;
  if (i >= quads) return;
  float g[quad], w[quad], states[2][quad];
  load_quad(static_cast<const Grad*>(arrays.grad), i, g);
  load_quad(arrays.master, i, w);
  for (int s = 0; s < Rule::states; ++s) load_quad(arrays.states[s], i, states[s]);
  if (rule.skip()) return;
  const auto scalars = rule.scalars();
  for (int k = 0; k < quad; ++k) rule.apply(scalars, g[k], w[k], states[0][k], states[1][k]);
  store_quad(w, i, arrays.master);
  for (int s = 0; s < Rule::states; ++s) store_quad(states[s], i, arrays.states[s]);
  if constexpr (copies<Weight>) store_quad(w, i, static_cast<Weight*>(arrays.weight));
}

inline void require_aligned(const void* pointer) {
  if (reinterpret_cast<uintptr_t>(pointer) % 16 == 0) return;
  throw core::Error("an optimizer was given an array that is not aligned to 16 bytes, which its GPU kernels need");
}

template <class Rule>
void run_step(const Rule& rule, int64_t n, const StepArrays& arrays, core::DType grad, core::DType weight) {
  using Kernel = void (*)(Rule, int64_t, StepArrays);
  static constexpr Kernel kernels[3][4] = {{step_kernel<Rule, float, float>, step_kernel<Rule, float, bf16>,
                                            step_kernel<Rule, float, f16>, step_kernel<Rule, float, None>},
                                           {step_kernel<Rule, bf16, float>, step_kernel<Rule, bf16, bf16>,
                                            step_kernel<Rule, bf16, f16>, step_kernel<Rule, bf16, None>},
                                           {step_kernel<Rule, f16, float>, step_kernel<Rule, f16, bf16>,
                                            step_kernel<Rule, f16, f16>, step_kernel<Rule, f16, None>}};
  if (n == 0) return;
  for (const void* array :
       {static_cast<const void*>(arrays.master), static_cast<const void*>(arrays.states[0]),
        static_cast<const void*>(arrays.states[1]), arrays.grad, static_cast<const void*>(arrays.weight)}) {
    require_aligned(array);
  }
  const int64_t quads = n / quad;
  const auto blocks = static_cast<unsigned>((quads + step_threads - 1) / step_threads);
  const size_t copy = arrays.weight ? static_cast<size_t>(weight) : size_t{no_weight_copy};
  core::cuda::launch(kernels[static_cast<size_t>(grad)][copy], blocks, step_threads, 0, rule, quads, arrays);
}

template <class Rule>
void run_step(const Rule& rule, const UnitPart& part) {
  StepArrays arrays{part.master, {}, part.grad, part.weight};
  for (size_t s = 0; s < part.states.size(); ++s) arrays.states[s] = part.states[s];
  run_step(rule, part.count, arrays, part.grad_type, part.weight_type);
}

}  // namespace
}  // namespace zrt::optimizer::cuda
