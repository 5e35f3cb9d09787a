// One pass over n elements: an Op loads eight elements of its inputs and later, with the next loads under way, writes
// eight of its outputs. Outputs may be inputs: a group is read before it is written, by the same thread.
//   struct Op { struct Inputs; Inputs load(int64_t at, int64_t left) const; void finish(at, left, Inputs&) const; };
#pragma once
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/vector_io.cuh"

namespace zrt::models::cuda {

inline constexpr int elementwise_threads = 256, groups_per_thread = 2;

template <class Op>
__global__ void __launch_bounds__(elementwise_threads) elementwise(Op op, int64_t n) {
  const int64_t step = elementwise_threads * group;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * groups_per_thread * step + threadIdx.x * group;
  typename Op::Inputs inputs[groups_per_thread];
#pragma unroll
  for (int g = 0; g < groups_per_thread; ++g) {
    const int64_t at = begin + g * step;
    if (at < n) inputs[g] = op.load(at, n - at);
  }
#pragma unroll
  for (int g = 0; g < groups_per_thread; ++g) {
    const int64_t at = begin + g * step;
    if (at < n) op.finish(at, n - at, inputs[g]);
  }
}

template <class Op>
void run_elementwise(const Op& op, int64_t n) {
  if (n <= 0) return;
  const unsigned blocks = blocks_for(n, int64_t{elementwise_threads} * group * groups_per_thread);
  core::cuda::launch(elementwise<Op>, blocks, elementwise_threads, 0, op, n);
}

}  // namespace zrt::models::cuda
