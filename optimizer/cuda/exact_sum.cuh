// Chunk sums and exact sums across the threads of a block.
#pragma once
#include <cuda_runtime.h>

#include "optimizer/exact_sum.h"

namespace zrt::optimizer::cuda {
namespace {

constexpr unsigned all_lanes = 0xffffffffu;
constexpr int chunk_lanes = 8;  // threads that sum a chunk, neighbours in a warp: lane l adds elements l, l + 8, …
constexpr int warp_chunks = 32 / chunk_lanes;
constexpr int sum_threads = 256;
constexpr int sum_warps = sum_threads / 32;

// The square of an fp32 number is exact in fp64, so that fusing does not change the bits.
__device__ inline double add_square(double sum, float x) {
  const double value = static_cast<double>(x);
  return fma(value, value, sum);
}

// The lanes of a chunk as a tree: ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)), on all of them.
__device__ inline double add_lanes(double sum) {
  for (int distance = chunk_lanes / 2; distance > 0; distance /= 2) {
    sum = sum + __shfl_xor_sync(all_lanes, sum, distance);
  }
  return sum;
}

// Other blocks may add at the same time: every wrap of a limb hands exactly one carry to the next.
__device__ inline void add_atomically(ExactSum& sum, const ExactSum& part) {
  uint64_t carry = 0;
  for (int i = 0; i < ExactSum::size; ++i) {
    const uint64_t addend = part.limbs[i] + carry;
    if (addend == 0) continue;  // nothing to add, or the carry made it wrap and goes on
    const uint64_t old = atomicAdd(reinterpret_cast<unsigned long long*>(&sum.limbs[i]), addend);
    carry = old + addend < addend;
  }
  if (part.non_finite != 0) atomicAdd(reinterpret_cast<unsigned long long*>(&sum.non_finite), part.non_finite);
}

// Adds the sums of all threads of the block; for blocks of sum_threads.
__device__ inline void add_block(ExactSum& sum, ExactSum own) {
  alignas(ExactSum) __shared__ std::byte shared[sum_warps * sizeof(ExactSum)];
  auto* sums = reinterpret_cast<ExactSum*>(shared);
  for (int distance = 16; distance > 0; distance /= 2) {
    ExactSum other;
    for (int i = 0; i < ExactSum::size; ++i) other.limbs[i] = __shfl_down_sync(all_lanes, own.limbs[i], distance);
    other.non_finite = __shfl_down_sync(all_lanes, own.non_finite, distance);
    own.add(other);
  }
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < sum_warps; ++warp) own.add(sums[warp]);
  add_atomically(sum, own);
}

// Blocks that take 32 chunks per warp in turns. Independent of the chip: more do not make it faster anywhere.
inline unsigned sum_blocks(int64_t chunks) {
  constexpr int64_t of_block = int64_t{sum_warps} * warp_chunks * chunk_lanes;
  const int64_t blocks = (chunks + of_block - 1) / of_block;
  return static_cast<unsigned>(blocks < 1024 ? blocks : 1024);
}

}  // namespace
}  // namespace zrt::optimizer::cuda
