// A tile of 128 × 128 sums on its way from the accumulators of mma to a gradient or a matrix: through shared memory, so
// that threads write eight neighbours each.
#pragma once
#include "models/kernels/cuda/expert_tiles.cuh"
#include "models/kernels/cuda/gradient.cuh"

namespace zrt::models::cuda {

inline constexpr int tile_size = 128, sum_stride = tile_size + 8;  // rows that a warp writes lie in different banks
inline constexpr uint32_t sum_bytes = tile_size * sum_stride * sizeof(float);

// A warp's 16 × 8 sums at (row, column) of the tile.
__device__ inline void put_sums(float* shared, int row, int column, const float (&sums)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = (row + 8 * half + lane / 4) * sum_stride + column + 2 * (lane % 4);
    *reinterpret_cast<float2*>(shared + at) = {sums[2 * half], sums[2 * half + 1]};
  }
}

// All threads of the block, once all have put their sums; first_column of `width` is the tile's.
template <int threads>
__device__ inline void write_sums(const float* shared, const TileTarget& target, int first_column, int width) {
  __syncthreads();
  constexpr int groups = tile_size / group;
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < tile_size * groups; i += threads) {
    const int r = i / groups, at = first_column + i % groups * group;
    if (r >= target.rows) break;
    if (at >= width) continue;
    const auto* from = reinterpret_cast<const float4*>(shared + r * sum_stride + i % groups * group);
    const float4 low = from[0], high = from[1];
    float eight[group] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    write_gradients(target.to, (target.first + r) * width + at, width - at, eight);
  }
}

}  // namespace zrt::models::cuda
