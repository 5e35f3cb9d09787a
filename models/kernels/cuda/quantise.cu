#include <algorithm>

#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/quantise.h"
#include "models/kernels/cuda/reduce.cuh"
#include "models/kernels/cuda/vector_io.cuh"
#include "models/kernels/fp8.h"

namespace zrt::models::cuda {
namespace {

using core::bf16;
using core::e4m3;

constexpr int threads = 256, warps = threads / 32;
static_assert(quantise_parts == threads);
constexpr int chunk = 16;  // elements that make one store of 16 bytes
constexpr int tile = 64;   // rows and columns that a block transposes at once
constexpr int pitch = 68;  // bytes from row to row of the tile: an odd number of words keeps banks apart
constexpr unsigned most_blocks = 2048;

// Every thread gets the largest of all; bits of magnitudes are ordered as the magnitudes are, with NaN above all.
__device__ uint32_t block_largest(uint32_t x, uint32_t* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(all_lanes, x, step));
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < warps; ++i) largest = max(largest, shared[i]);
  return largest;
}

__global__ void __launch_bounds__(threads)
    largest_parts(const bf16* x, int64_t rows, int64_t columns, int64_t ld, uint32_t* parts) {
  __shared__ uint32_t shared[warps];
  const int64_t in_row = columns / group, groups = rows * in_row;
  uint32_t largest = 0;
  for (int64_t g = int64_t{blockIdx.x} * threads + threadIdx.x; g < groups; g += int64_t{quantise_parts} * threads) {
    const int64_t row = rows == 1 ? 0 : g / in_row;
    const Raw<bf16> raw = load_raw(x + row * ld + (g - row * in_row) * group, group);
    const uint4 w = raw.words[0];
    const uint32_t low = max(max((w.x & 0x7fffu), (w.y & 0x7fffu)), max((w.z & 0x7fffu), (w.w & 0x7fffu)));
    const uint32_t high =
        max(max((w.x & 0x7fff0000u), (w.y & 0x7fff0000u)), max((w.z & 0x7fff0000u), (w.w & 0x7fff0000u)));
    largest = max(largest, max(low << 16, high));
  }
  largest = block_largest(largest, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = largest;
}

// The exponent of the tensor's scale; the first block writes the inverse.
__device__ int exponent_of(const uint32_t* parts, float* scale, bool first) {
  __shared__ uint32_t shared[warps];
  const int exponent = fp8_exponent(block_largest(parts[threadIdx.x], shared));
  if (first && threadIdx.x == 0) *scale = power_of_two(-exponent);
  return exponent;
}

// Eight elements as two words of four bytes.
__device__ uint2 quantised_group(const bf16* from, float scale) {
  float x[group];
  load(from, group, x);
  uint32_t words[2] = {};
#pragma unroll
  for (int i = 0; i < group; ++i) words[i / 4] |= uint32_t{core::to_e4m3(x[i] * scale).bits} << 8 * (i % 4);
  return {words[0], words[1]};
}

__global__ void __launch_bounds__(threads) quantise_rows(const bf16* x, int64_t rows, int64_t columns, int64_t ld,
                                                         const uint32_t* parts, e4m3* to, float* scale) {
  const float factor = power_of_two(exponent_of(parts, scale, blockIdx.x == 0));
  const int64_t in_row = columns / chunk, chunks = rows * in_row;
  for (int64_t c = int64_t{blockIdx.x} * threads + threadIdx.x; c < chunks; c += int64_t{gridDim.x} * threads) {
    const int64_t row = rows == 1 ? 0 : c / in_row;
    const bf16* from = x + row * ld + (c - row * in_row) * chunk;
    const uint2 low = quantised_group(from, factor), high = quantised_group(from + group, factor);
    reinterpret_cast<uint4*>(to)[c] = {low.x, low.y, high.x, high.y};
  }
}

// A block's tiles lie below each other: columns blockIdx.x * tile on, rows of every gridDim.y-th tile.
__global__ void __launch_bounds__(threads) quantise_turned(const bf16* x, int64_t rows, int64_t columns, int64_t ld,
                                                           const uint32_t* parts, e4m3* to, float* scale) {
  __shared__ uint32_t square[tile * pitch / 4];
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(square);
  const float factor = power_of_two(exponent_of(parts, scale, blockIdx.x == 0 && blockIdx.y == 0));
  const int64_t column = int64_t{blockIdx.x} * tile;
  for (int64_t row = int64_t{blockIdx.y} * tile; row < rows; row += int64_t{gridDim.y} * tile) {
#pragma unroll
    for (int i = threadIdx.x; i < tile * tile / group; i += threads) {
      const int r = i / (tile / group), c = i % (tile / group) * group;
      if (row + r >= rows || column + c >= columns) continue;
      const uint2 eight = quantised_group(x + (row + r) * ld + column + c, factor);
      uint32_t* at = square + (r * pitch + c) / 4;
      at[0] = eight.x, at[1] = eight.y;
    }
    __syncthreads();
    const int c = threadIdx.x / (tile / chunk), r = threadIdx.x % (tile / chunk) * chunk;
    if (column + c < columns && row + r < rows) {
      uint32_t words[chunk / 4] = {};
#pragma unroll
      for (int i = 0; i < chunk; ++i) words[i / 4] |= uint32_t{bytes[(r + i) * pitch + c]} << 8 * (i % 4);
      *reinterpret_cast<uint4*>(to + (column + c) * rows + row + r) = {words[0], words[1], words[2], words[3]};
    }
    __syncthreads();
  }
}

}  // namespace

void quantise(const QuantisedMatrix& matrix, const bf16* x, uint32_t* parts, e4m3* to, float* scale) {
  // A dense matrix is one long row to kernels that go through it in order.
  const bool dense = matrix.ld == matrix.columns;
  const int64_t rows = dense ? 1 : matrix.rows, columns = dense ? matrix.rows * matrix.columns : matrix.columns;
  core::cuda::launch(largest_parts, quantise_parts, threads, 0, x, rows, columns, matrix.ld, parts);
  if (matrix.turned) {
    const unsigned across = blocks_for(matrix.columns, tile), down = blocks_for(matrix.rows, tile);
    const dim3 grid(across, std::min(down, std::max(most_blocks / across, 1u)));
    return core::cuda::launch(quantise_turned, grid, threads, 0, x, matrix.rows, matrix.columns, matrix.ld, parts, to,
                              scale);
  }
  const unsigned blocks = blocks_for(matrix.rows * matrix.columns / chunk, threads);
  core::cuda::launch(quantise_rows, std::min(blocks, most_blocks), threads, 0, x, rows, columns, matrix.ld, parts, to,
                     scale);
}

}  // namespace zrt::models::cuda
