#include "core/cuda/dynamic_shared.cuh"
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/attention_mma.cuh"
#include "models/kernels/cuda/expert_sums.cuh"
#include "models/kernels/cuda/expert_tiles.cuh"
#include "models/kernels/cuda/warpgroup.cuh"

namespace zrt::models::cuda::warpgroup {
namespace {

// A block computes 128 × 128 elements in steps of 64 along K: each of its two groups of four warps 64 rows, as two
// results of 64 × 64. Tiles of the next step are on their way, and those of the one behind are asked for, while
// products go on.
constexpr int depth = 64, groups = 2, threads = groups * group_threads, stages = 3;
using Tile = SharedTile<64>;
// Two halves of a step's rows or columns, of 64 × 64 each: with K along their rows they are one tile of 128 rows.
constexpr uint32_t half_bytes = 64 * Tile::row_bytes, tile_bytes = 2 * half_bytes, stage_bytes = 2 * tile_bytes;
constexpr uint32_t shared_bytes = stages * stage_bytes;
static_assert(sum_bytes <= shared_bytes && half_bytes % tile_align == 0);

// A step's rows or columns of an operand from `from` on, of which `valid` exist, and `left` along K.
template <bool wide, class E>
__device__ void load_halves(uint32_t to, const E* from, int64_t stride, int valid, int left) {
  if constexpr (wide) {
    Tile::load<tile_size, threads>(to, from, stride, valid, left);
  } else {
    Tile::load<depth, threads>(to, from, stride, left, valid);
    Tile::load<depth, threads>(to + half_bytes, from + 64, stride, left, valid - 64);
  }
}

template <bool wide>
__device__ uint64_t operand(uint32_t half, int step) {
  return wide ? rows_operand(half, step) : turned_operand(half, step);
}

template <class E, ExpertRole role>
__global__ void __launch_bounds__(threads, 2) group_kernel(const __grid_constant__ ExpertCall call) {
  constexpr bool a_wide = role != ExpertRole::weight_gradient, b_wide = role == ExpertRole::forward;
  const ExpertTile tile = own_tile<role, tile_size>(call);
  if (tile.expert < 0) return;
  const TileTarget target = target_of<role>(call, tile);
  const int all = a_wide ? call.K : tile.count, rows = a_wide ? tile.count : call.M, columns = call.N;
  if (!a_wide && leaves(target.to, all)) return;
  const int64_t a_stride = a_wide ? all : rows, b_stride = b_wide ? all : columns;
  const E* const a =
      static_cast<const E*>(call.a) + tile.start * a_stride + (a_wide ? tile.row * a_stride : int64_t{tile.row});
  const E* const b = (a_wide ? static_cast<const E*>(call.matrix[tile.expert])
                             : static_cast<const E*>(call.b) + tile.start * b_stride) +
                     (b_wide ? tile.column * b_stride : int64_t{tile.column});

  std::byte* shared = core::cuda::dynamic_shared<std::byte>();
  const uint32_t rest = shared_address(shared) % tile_align;
  shared += rest == 0 ? 0 : tile_align - rest;
  const uint32_t tiles = shared_address(shared);
  const int steps = (all + depth - 1) / depth;
  // Ends a batch of copies, of nothing where there is no such step.
  const auto load = [&](int step) {
    const uint32_t to = tiles + static_cast<uint32_t>(step % stages) * stage_bytes;
    const int k = step * depth;
    if (step < steps) {
      load_halves<a_wide>(to, a + (a_wide ? int64_t{k} : k * a_stride), a_stride, rows - tile.row, all - k);
      load_halves<b_wide>(to + tile_bytes, b + (b_wide ? int64_t{k} : k * b_stride), b_stride, columns - tile.column,
                          all - k);
    }
    end_copies();
  };
  for (int step = 0; step < stages - 1; ++step) load(step);

  const int group_index = static_cast<int>(threadIdx.x) / group_threads;
  const bool works = tile.row + group_rows * group_index < rows;
  float sums[2][8][4] = {};
  for (int step = 0; step < steps; ++step) {
    wait_for_copies<stages - 2>();
    fence_tiles();
    wait_for_products<0>(sums[0], sums[1]);
    __syncthreads();  // the step's tiles have come, and products with those before are done
    const uint32_t left = tiles + static_cast<uint32_t>(step % stages) * stage_bytes +
                          static_cast<uint32_t>(group_index) * half_bytes,
                   right = tiles + static_cast<uint32_t>(step % stages) * stage_bytes + tile_bytes;
    if (works) {
      begin_products(sums[0], sums[1]);
#pragma unroll
      for (int i = 0; i < depth / 16; ++i) {
        multiply<E, !b_wide, !a_wide>(sums[0], operand<a_wide>(left, i), operand<b_wide>(right, i), true);
        multiply<E, !b_wide, !a_wide>(sums[1], operand<a_wide>(left, i), operand<b_wide>(right + half_bytes, i), true);
      }
      end_products();
    }
    load(step + stages - 1);
  }
  wait_for_products<0>(sums[0], sums[1]);
  __syncthreads();  // nobody multiplies by the tiles that sums go through
  const int row = static_cast<int>(threadIdx.x) / 32 * 16;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int n = 0; n < 8; ++n) put_sums(reinterpret_cast<float*>(shared), row, 64 * half + 8 * n, sums[half][n]);
  }
  write_sums<threads>(reinterpret_cast<float*>(shared), target, tile.column, columns);
}

template <class E, ExpertRole role>
void launch(const ExpertCall& call) {
  const auto kernel = group_kernel<E, role>;
  const uint32_t bytes = shared_bytes + tile_align;
  ZRT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  core::cuda::launch(kernel, static_cast<unsigned>(call.tiles(role, tile_size)), threads, bytes, call);
}

template <class E>
void launch(ExpertRole role, const ExpertCall& call) {
  if (role == ExpertRole::forward) return launch<E, ExpertRole::forward>(call);
  if (role == ExpertRole::input_gradient) return launch<E, ExpertRole::input_gradient>(call);
  launch<E, ExpertRole::weight_gradient>(call);
}

}  // namespace

// Small matrices leave tiles empty, which warps by themselves pass over.
bool takes(ExpertRole role, const ExpertCall& call) {
  constexpr bool built = ZRT_CUDA_WARPGROUPS;  // for a chip that has them
  const int other = role == ExpertRole::weight_gradient ? call.M : call.K;
  return built && call.N >= tile_size && other >= tile_size && core::cuda::compute_capability() == 90;
}

void multiply_experts(ExpertRole role, const ExpertCall& call) {
  if (call.type == DType::f16) return launch<__half>(role, call);
  launch<__nv_bfloat16>(role, call);
}

}  // namespace zrt::models::cuda::warpgroup
