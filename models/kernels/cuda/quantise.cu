#include <cuda_fp8.h>

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

constexpr int threads = 256;
static_assert(quantise_parts == threads);
constexpr int parts_threads = 512;
constexpr int at_once = 4;  // groups that a thread reads before it looks at the first: 16 bytes each
constexpr int chunk = 16;   // elements that make one store of 16 bytes
constexpr int tile_columns = 64, tile_rows = 128;  // that a block transposes: lines of 128 bytes on both sides

// Every thread gets the largest of all; bits of magnitudes are ordered as the magnitudes are, with NaN above all.
__device__ uint32_t block_largest(uint32_t x, uint32_t* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(all_lanes, x, step));
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  uint32_t largest = 0;
  for (int i = 0; i < warps; ++i) largest = max(largest, shared[i]);
  return largest;
}

// The groups of a matrix, which are numbered row after row.
struct Groups {
  const bf16* x;
  int64_t rows, in_row, ld;
  __device__ int64_t count() const { return rows * in_row; }
  __device__ Raw<bf16> read(int64_t g) const {
    const int64_t row = rows == 1 ? 0 : g / in_row;
    return load_raw(x + row * ld + (g - row * in_row) * group, group);
  }
};

__device__ uint32_t largest_of(const Raw<bf16>& raw) {
  const uint4 w = raw.words[0];
  const uint32_t low = max(max((w.x & 0x7fffu), (w.y & 0x7fffu)), max((w.z & 0x7fffu), (w.w & 0x7fffu)));
  const uint32_t high =
      max(max((w.x & 0x7fff0000u), (w.y & 0x7fff0000u)), max((w.z & 0x7fff0000u), (w.w & 0x7fff0000u)));
  return max(low << 16, high);
}

__global__ void __launch_bounds__(parts_threads) largest_parts(Groups groups, uint32_t* parts) {
  __shared__ uint32_t shared[parts_threads / 32];
  constexpr int64_t step = int64_t{quantise_parts} * parts_threads;
  const int64_t count = groups.count();
  uint32_t largest = 0;
  for (int64_t first = int64_t{blockIdx.x} * parts_threads + threadIdx.x; first < count; first += at_once * step) {
    Raw<bf16> raw[at_once]{};
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      if (first + u * step < count) raw[u] = groups.read(first + u * step);
    }
#pragma unroll
    for (int u = 0; u < at_once; ++u) largest = max(largest, largest_of(raw[u]));
  }
  largest = block_largest(largest, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = largest;
}

// The factor that elements are multiplied by, and whether all are numbers; the first block writes the inverse.
struct Scaling {
  float factor;
  bool finite;
};
__device__ Scaling scaling_of(const uint32_t* parts, float* scale, bool first) {
  __shared__ uint32_t shared[threads / 32];
  const uint32_t largest = block_largest(parts[threadIdx.x], shared);
  const int exponent = fp8_exponent(largest);
  if (first && threadIdx.x == 0) *scale = power_of_two(-exponent);
  return {power_of_two(exponent), largest < 0x7f800000u};
}

// Four numbers as bytes, the first of them lowest. The instruction for it makes infinities 448 and drops NaN's sign.
__device__ uint32_t quantised(const Scaling& scaling, float a, float b, float c, float d) {
  const float f = scaling.factor;
  if (scaling.finite) {
    const uint32_t low = __nv_cvt_float2_to_fp8x2({a * f, b * f}, __NV_SATFINITE, __NV_E4M3);
    const uint32_t high = __nv_cvt_float2_to_fp8x2({c * f, d * f}, __NV_SATFINITE, __NV_E4M3);
    return low | high << 16;
  }
  const uint32_t low = core::to_e4m3(a * f).bits | uint32_t{core::to_e4m3(b * f).bits} << 8;
  return low | uint32_t{core::to_e4m3(c * f).bits} << 16 | uint32_t{core::to_e4m3(d * f).bits} << 24;
}

// Goes through the matrix from its end on: what largest_parts read last may still be in the cache.
__global__ void __launch_bounds__(threads) quantise_rows(Groups groups, const uint32_t* parts, e4m3* to, float* scale) {
  const int64_t begin = int64_t{gridDim.x - 1 - blockIdx.x} * at_once * threads + threadIdx.x, count = groups.count();
  Raw<bf16> raw[at_once];
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    if (begin + u * threads < count) raw[u] = groups.read(begin + u * threads);
  }
  const Scaling scaling = scaling_of(parts, scale, blockIdx.x == 0);
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    if (begin + u * threads >= count) continue;
    float x[group];
    unpack<bf16>(raw[u], x);
    reinterpret_cast<uint2*>(to)[begin + u * threads] = {quantised(scaling, x[0], x[1], x[2], x[3]),
                                                         quantised(scaling, x[4], x[5], x[6], x[7])};
  }
}

// The place in a tile, in words, of column c's rows 4 quad … 4 quad + 3. Neighbouring groups of columns have their
// chunks in another order each, so that a warp's accesses fall on all banks.
__device__ int tile_place(int c, int quad) {
  return c * (tile_rows / 4) + (quad ^ (c / group % 8 * 4));
}

// A block has a tile, a thread a group of columns of four rows, which make a word per column. From the end on, as
// above.
__global__ void __launch_bounds__(threads) quantise_turned(const bf16* x, int64_t rows, int64_t columns, int64_t ld,
                                                           const uint32_t* parts, e4m3* to, float* scale) {
  __shared__ uint4 square[tile_columns * tile_rows / sizeof(uint4)];
  static_assert(tile_columns / group * tile_rows / 4 == threads && group == 8);
  const unsigned tile = gridDim.x - 1 - blockIdx.x, across = static_cast<unsigned>((columns - 1) / tile_columns) + 1;
  const int64_t row = int64_t{tile / across} * tile_rows, column = int64_t{tile % across} * tile_columns;
  const int c = threadIdx.x % (tile_columns / group) * group, quad = threadIdx.x / (tile_columns / group);
  const bool inside = row + 4 * quad < rows && column + c < columns;
  Raw<bf16> raw[4]{};
  if (inside) {
    const bf16* from = x + (row + 4 * quad) * ld + column + c;
#pragma unroll
    for (int i = 0; i < 4; ++i) raw[i] = load_raw(from + i * ld, group);
  }
  const Scaling scaling = scaling_of(parts, scale, blockIdx.x == 0);
  float v[4][group];
#pragma unroll
  for (int i = 0; i < 4; ++i) unpack<bf16>(raw[i], v[i]);
#pragma unroll
  for (int i = 0; i < group; ++i) {
    reinterpret_cast<uint32_t*>(square)[tile_place(c + i, quad)] =
        quantised(scaling, v[0][i], v[1][i], v[2][i], v[3][i]);
  }
  __syncthreads();
#pragma unroll
  for (int i = threadIdx.x; i < tile_columns * tile_rows / chunk; i += threads) {
    const int from = i / (tile_rows / chunk), r = i % (tile_rows / chunk) * chunk;
    if (column + from >= columns || row + r >= rows) continue;
    *reinterpret_cast<uint4*>(to + (column + from) * rows + row + r) = square[tile_place(from, r / 4) / 4];
  }
}

}  // namespace

void quantise(const QuantisedMatrix& matrix, const bf16* x, uint32_t* parts, e4m3* to, float* scale) {
  // A dense matrix is one long row to kernels that go through it in order.
  const bool dense = matrix.ld == matrix.columns;
  const Groups groups{x, dense ? 1 : matrix.rows, (dense ? matrix.rows : 1) * matrix.columns / group, matrix.ld};
  core::cuda::launch(largest_parts, quantise_parts, parts_threads, 0, groups, parts);
  if (matrix.turned) {
    const unsigned tiles = blocks_for(matrix.columns, tile_columns) * blocks_for(matrix.rows, tile_rows);
    return core::cuda::launch(quantise_turned, tiles, threads, 0, x, matrix.rows, matrix.columns, matrix.ld, parts, to,
                              scale);
  }
  const unsigned blocks = blocks_for(groups.rows * groups.in_row, int64_t{threads} * at_once);
  core::cuda::launch(quantise_rows, blocks, threads, 0, groups, parts, to, scale);
}

}  // namespace zrt::models::cuda
