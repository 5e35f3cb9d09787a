#include "core/cuda/dynamic_shared.cuh"
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/attention_mma.cuh"
#include "models/kernels/cuda/expert_sums.cuh"
#include "models/kernels/cuda/expert_tiles.cuh"

namespace zrt::models::cuda {
namespace {

// A block computes 128 × 128 elements, each of its four warps 64 × 64, in steps of 64 along K. Tiles of two further
// steps are on their way while one is worked on.
constexpr int depth = 64, threads = 128, stages = 3;
constexpr int M = 4, N = 8, warp_size = 64;  // a warp's pieces of 16 rows and of 8 columns
using Wide = SharedTile<depth>;              // rows of 64 along K
using Tall = SharedTile<tile_size>;          // rows of 128, of which there are 64
constexpr uint32_t tile_bytes = tile_size * depth * 2, stage_bytes = 2 * tile_bytes;
constexpr int shared_bytes = stages * stage_bytes;
static_assert(sum_bytes <= shared_bytes);

using Sums = float[M][N][4];

// sums += a · b of 16 along K, of which the warp's part begins at (row, column).
template <class E, bool a_wide, bool b_wide>
__device__ void add_step(Sums& sums, uint32_t a, int row, uint32_t b, int column, int step) {
  uint32_t left[M][4];
#pragma unroll
  for (int m = 0; m < M; ++m) {
    if constexpr (a_wide) {
      Wide::left(left[m], a + static_cast<uint32_t>((row + 16 * m) * Wide::row_bytes), step);
    } else {
      Tall::left_transposed(left[m], a, 16 * step, row / 16 + m);
    }
  }
#pragma unroll
  for (int n = 0; n < N; n += 2) {
    uint32_t right[4];
    if constexpr (b_wide) {
      Wide::right(right, b, column + 8 * n, step);
    } else {
      Tall::right_transposed(right, b, 16 * step, column / 16 + n / 2);
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
      mma<E>(sums[m][n], left[m], right[0], right[1]);
      mma<E>(sums[m][n + 1], left[m], right[2], right[3]);
    }
  }
}

// Adds the products of the `left` elements that remain along K, of a whole depth at most.
template <class E, bool a_wide, bool b_wide>
__device__ void add_products(Sums& sums, uint32_t a, int row, uint32_t b, int column, int left) {
  if (left < depth) {
#pragma unroll 1
    for (int step = 0; 16 * step < left; ++step) add_step<E, a_wide, b_wide>(sums, a, row, b, column, step);
    return;
  }
#pragma unroll
  for (int step = 0; step < depth / 16; ++step) add_step<E, a_wide, b_wide>(sums, a, row, b, column, step);
}

template <class E, ExpertRole role>
__global__ void __launch_bounds__(threads, 2) tensor_kernel(const __grid_constant__ ExpertCall call) {
  constexpr bool in_slots = role != ExpertRole::weight_gradient;  // A's rows, and the result's
  constexpr bool b_wide = role == ExpertRole::forward;
  const ExpertTile tile = own_tile<role, tile_size>(call);
  if (tile.expert < 0) return;
  const TileTarget target = target_of<role>(call, tile);
  const int all = in_slots ? call.K : tile.count, rows = in_slots ? tile.count : call.M, columns = call.N;
  if (!in_slots && leaves(target.to, all)) return;
  const int64_t a_stride = in_slots ? all : rows, b_stride = b_wide ? all : columns;
  const E* const a = static_cast<const E*>(call.a) + tile.start * a_stride;
  const E* const b =
      in_slots ? static_cast<const E*>(call.matrix[tile.expert]) : static_cast<const E*>(call.b) + tile.start * columns;

  float* const shared = core::cuda::dynamic_shared<float>();
  const uint32_t tiles = shared_address(shared);
  const int steps = (all + depth - 1) / depth;
  // Ends a batch of copies, of nothing where there is no such step.
  const auto load = [&](int step) {
    const uint32_t to = tiles + static_cast<uint32_t>(step % stages) * stage_bytes;
    const int k = step * depth;
    if (step < steps) {
      if constexpr (in_slots) {
        Wide::load<tile_size, threads>(to, a + tile.row * a_stride + k, a_stride, rows - tile.row, all - k);
      } else {
        Tall::load<depth, threads>(to, a + k * a_stride + tile.row, a_stride, all - k, rows - tile.row);
      }
      if constexpr (b_wide) {
        Wide::load<tile_size, threads>(to + tile_bytes, b + tile.column * b_stride + k, b_stride, columns - tile.column,
                                       all - k);
      } else {
        Tall::load<depth, threads>(to + tile_bytes, b + k * b_stride + tile.column, b_stride, all - k,
                                   columns - tile.column);
      }
    }
    end_copies();
  };
  for (int step = 0; step < stages - 1; ++step) load(step);

  const int warp = static_cast<int>(threadIdx.x) / 32, row = warp / 2 * warp_size, column = warp % 2 * warp_size;
  const bool works = tile.row + row < rows && tile.column + column < columns;
  Sums sums = {};
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<stages - 2>();
    __syncthreads();  // the step's tiles have come, and nobody reads those before any more
    load(step + stages - 1);
    const uint32_t from = tiles + static_cast<uint32_t>(step % stages) * stage_bytes;
    if (works) add_products<E, in_slots, b_wide>(sums, from, row, from + tile_bytes, column, all - step * depth);
  }
  __syncthreads();
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) put_sums(shared, row + 16 * m, column + 8 * n, sums[m][n]);
  }
  write_sums<threads>(shared, target, tile.column, columns);
}

template <class E, ExpertRole role>
void launch(const ExpertCall& call) {
  const auto kernel = tensor_kernel<E, role>;
  ZRT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  core::cuda::launch(kernel, static_cast<unsigned>(call.tiles(role, tile_size)), threads, shared_bytes, call);
}

template <class E>
void launch(ExpertRole role, const ExpertCall& call) {
  if (role == ExpertRole::forward) return launch<E, ExpertRole::forward>(call);
  if (role == ExpertRole::input_gradient) return launch<E, ExpertRole::input_gradient>(call);
  launch<E, ExpertRole::weight_gradient>(call);
}

}  // namespace

void multiply_on_tensor_cores(ExpertRole role, const ExpertCall& call) {
  if (warpgroup::takes(role, call)) return warpgroup::multiply_experts(role, call);
  if (call.type == DType::f16) return launch<__half>(role, call);
  launch<__nv_bfloat16>(role, call);
}

}  // namespace zrt::models::cuda
