// Sums over a warp and over a block, in an order that depends on the number of threads alone.
#pragma once
#include <cstdint>

namespace zrt::models::cuda {

inline constexpr unsigned all_lanes = 0xffffffffu;

// Every lane gets the sum.
template <class Number>
__device__ inline Number warp_sum(Number x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(all_lanes, x, step);
  return x;
}

__device__ inline float warp_max(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(all_lanes, x, step));
  return x;
}

// A lane gets the sum of the lanes up to its own, which is part of it.
template <class Number>
__device__ inline Number warp_sum_up_to(Number x) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const Number lower = __shfl_up_sync(all_lanes, x, step);
    if (lane >= step) x += lower;
  }
  return x;
}

// Every thread of the block, whole warps of them, gets the sum; `shared` has room for 32 numbers. The caller sees to it
// that nobody still reads what was in `shared`.
template <class Number>
__device__ inline Number block_sum(Number x, Number* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  x = warp_sum(x);
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  return warp_sum(lane < warps ? shared[lane] : Number{0});
}

__device__ inline float block_max(float x, float* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  x = warp_max(x);
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  return warp_max(shared[lane < warps ? lane : 0]);
}

}  // namespace zrt::models::cuda
