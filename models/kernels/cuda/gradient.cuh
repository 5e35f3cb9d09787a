// Writing sums to a GradTarget.
#pragma once
#include "models/kernels/cuda/vector_io.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {

template <class T>
__device__ inline void put_gradient(const GradTarget& target, int64_t at, float sum) {
  T* to = static_cast<T*>(target.data) + at;
  *to = narrow<T>(target.accumulate ? widen(*to) + sum : sum);
}

__device__ inline void write_gradient(const GradTarget& target, int64_t at, float sum) {
  if (target.type == DType::f32) return put_gradient<float>(target, at, sum);
  if (target.type == DType::bf16) return put_gradient<core::bf16>(target, at, sum);
  put_gradient<core::f16>(target, at, sum);
}

template <class T>
__device__ inline void put_gradients(const GradTarget& target, int64_t at, int64_t left, float (&sums)[group]) {
  T* to = static_cast<T*>(target.data) + at;
  if (target.accumulate) {
    float old[group];
    load(to, left, old);
#pragma unroll
    for (int i = 0; i < group; ++i) sums[i] += old[i];
  }
  save(to, left, sums);
}

// Writes eight elements from `at` on, of which `left` exist.
__device__ inline void write_gradients(const GradTarget& target, int64_t at, int64_t left, float (&sums)[group]) {
  if (target.type == DType::f32) return put_gradients<float>(target, at, left, sums);
  if (target.type == DType::bf16) return put_gradients<core::bf16>(target, at, left, sums);
  put_gradients<core::f16>(target, at, left, sums);
}

}  // namespace zrt::models::cuda
