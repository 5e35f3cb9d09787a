// Squares of gradients, read with 16-byte accesses. What a thread reads belongs to eight lanes of a chunk: shared
// memory brings each lane its elements.
#include "core/cuda/launch.cuh"
#include "core/error.h"
#include "core/kernel_convert.h"
#include "optimizer/cuda/exact_sum.cuh"
#include "optimizer/require_arrays.h"

namespace zrt::optimizer::cuda {
namespace {

template <class T>
__global__ void __launch_bounds__(sum_threads) squares_kernel(const T* data, int64_t chunks, ExactSum* sum) {
  constexpr int pieces = 64 * sizeof(T) / (16 * chunk_lanes);  // 16-byte pieces of a chunk per thread
  constexpr int stride = 64 + 8;                               // elements; spreads the chunks of a warp over the banks
  alignas(16) __shared__ std::byte tiles[sum_warps * warp_chunks * stride * sizeof(T)];
  const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / chunk_lanes, lane = threadIdx.x % chunk_lanes;
  T* tile = reinterpret_cast<T*>(tiles) + (warp * warp_chunks + group) * stride;
  ExactSum own;
  constexpr int turns = chunk_lanes;  // each thread of a chunk adds the sum of one turn
  constexpr int64_t of_warp = warp_chunks * turns;
  for (int64_t first = (int64_t{blockIdx.x} * sum_warps + warp) * of_warp; first < chunks;
       first += int64_t{gridDim.x} * sum_warps * of_warp) {
    uint4 loaded[turns][pieces];
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      const int64_t chunk = first + turn * warp_chunks + group;
#pragma unroll
      for (int p = 0; p < pieces; ++p) {
        const uint4* from = reinterpret_cast<const uint4*>(data) + (chunk * pieces + p) * chunk_lanes + lane;
        loaded[turn][p] = chunk < chunks ? *from : uint4{};
      }
    }
    double mine = 0;
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      __syncwarp();
#pragma unroll
      for (int p = 0; p < pieces; ++p) reinterpret_cast<uint4*>(tile)[p * chunk_lanes + lane] = loaded[turn][p];
      __syncwarp();
      double total = 0;
#pragma unroll
      for (int row = 0; row < 64; row += chunk_lanes) total = add_square(total, core::widen(tile[row + lane]));
      total = add_lanes(total);
      if (lane == turn) mine = total;
    }
    own.add(mine);
  }
  add_block(*sum, own);
}

template <class T>
void run(ExactSum& sum, int64_t n, const void* data) {
  const int64_t chunks = n / 64;
  core::cuda::launch(squares_kernel<T>, sum_blocks(chunks), sum_threads, 0, static_cast<const T*>(data), chunks, &sum);
}

}  // namespace

void add_squares(ExactSum& sum, int64_t n, const void* data, core::DType type) {
  require_chunks("add_squares", n);
  require_float("add_squares", "array", type);
  if (n == 0) return;
  if (reinterpret_cast<uintptr_t>(data) % 16 != 0) {
    throw core::Error("add_squares was given an array that is not aligned to 16 bytes, which its GPU kernel needs");
  }
  if (type == core::DType::f32) return run<float>(sum, n, data);
  if (type == core::DType::bf16) return run<core::bf16>(sum, n, data);
  run<core::f16>(sum, n, data);
}

}  // namespace zrt::optimizer::cuda
