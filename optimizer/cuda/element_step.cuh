// The loop of the element-wise optimizers (element_rules.h): one thread updates four neighbouring elements.
// Types of gradients and weights are arguments: a branch that all threads take is nothing beside the memory it leads
// to, and kernels for every pair of types would be twelve times as many. For files compiled without contraction
// (EXACT), whose bits are those of the host's kernels.
#pragma once
#include <cuda_runtime.h>

#include "core/cuda/launch.cuh"
#include "core/error.h"
#include "optimizer/element_rules.h"
#include "optimizer/optimizer.h"
#include "optimizer/update_kernel.h"

namespace zrt::optimizer::cuda {
namespace {

constexpr int quad = 4;  // elements of a thread
constexpr int step_threads = 256;

struct StepArrays {
  float* master;
  float* states[2];
  const void* grad;
  void* weight;  // a copy in another type, or null
  core::DType grad_type, weight_type;
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

__device__ inline void load_typed(const void* from, core::DType type, int64_t i, float (&to)[quad]) {
  if (type == core::DType::f32) return load_quad(static_cast<const float*>(from), i, to);
  if (type == core::DType::bf16) return load_quad(static_cast<const bf16*>(from), i, to);
  load_quad(static_cast<const f16*>(from), i, to);
}
__device__ inline void store_typed(const float (&from)[quad], core::DType type, int64_t i, void* to) {
  if (type == core::DType::f32) return store_quad(from, i, static_cast<float*>(to));
  if (type == core::DType::bf16) return store_quad(from, i, static_cast<bf16*>(to));
  store_quad(from, i, static_cast<f16*>(to));
}

// A rule with the numbers of a step that a decision has, which lies in the GPU's memory.
template <class Of, int of_variant>
struct AtDecision {
  using Rule = Of;
  static constexpr int variant = of_variant, states = Rule::states(of_variant);
  typename Rule::Params params;
  const Decision* decision;

  __device__ bool skip() const { return decision->skip != 0; }
  __device__ typename Rule::Scalars scalars() const { return Rule::scalars(params, *decision); }
};
// A rule with the numbers of a step that it was given.
template <class Of, int of_variant>
struct AtScalars {
  using Rule = Of;
  static constexpr int variant = of_variant, states = Rule::states(of_variant);
  typename Rule::Scalars given;

  __device__ bool skip() const { return false; }
  __device__ typename Rule::Scalars scalars() const { return given; }
};

// Elements are asked for before it is known whether they are needed: the two latencies overlap.
template <class Step>
__global__ void __launch_bounds__(step_threads) step_kernel(Step step, int64_t quads, StepArrays arrays) {
  const int64_t i = int64_t{blockIdx.x} * step_threads + threadIdx.x;
  if (i >= quads) return;
  float g[quad], w[quad], states[2][quad];
  load_typed(arrays.grad, arrays.grad_type, i, g);
  load_quad(arrays.master, i, w);
  for (int s = 0; s < Step::states; ++s) load_quad(arrays.states[s], i, states[s]);
  if (step.skip()) {
    if (arrays.weight) store_typed(w, arrays.weight_type, i, arrays.weight);  // as it was
    return;
  }
  const auto scalars = step.scalars();
  for (int k = 0; k < quad; ++k) {
    Step::Rule::template apply<Step::variant>(scalars, g[k], w[k], states[0][k], states[1][k]);
  }
  store_quad(w, i, arrays.master);
  for (int s = 0; s < Step::states; ++s) store_quad(states[s], i, arrays.states[s]);
  if (arrays.weight) store_typed(w, arrays.weight_type, i, arrays.weight);
}

inline void require_aligned(const void* pointer) {
  if (reinterpret_cast<uintptr_t>(pointer) % 16 == 0) return;
  throw core::Error("an optimizer was given an array that is not aligned to 16 bytes, which its GPU kernels need");
}

template <class Step>
void run_step(const Step& step, int64_t n, const StepArrays& arrays) {
  if (n == 0) return;
  for (const void* array :
       {static_cast<const void*>(arrays.master), static_cast<const void*>(arrays.states[0]),
        static_cast<const void*>(arrays.states[1]), arrays.grad, static_cast<const void*>(arrays.weight)}) {
    require_aligned(array);
  }
  const int64_t quads = n / quad;
  const auto blocks = static_cast<unsigned>((quads + step_threads - 1) / step_threads);
  core::cuda::launch(step_kernel<Step>, blocks, step_threads, 0, step, quads, arrays);
}

template <class Step>
void run_step(const Step& step, const UnitPart& part) {
  StepArrays arrays{part.master, {}, part.grad, part.weight, part.grad_type, part.weight_type};
  for (size_t s = 0; s < part.states.size(); ++s) arrays.states[s] = part.states[s];
  run_step(step, part.count, arrays);
}

}  // namespace
}  // namespace zrt::optimizer::cuda
