// The kernels of attention by groups of four warps share these: dense attention without dropout, heads of up to 64 or,
// in two halves, 128 elements (attention_warpgroup.h). A block is a group; its 64 rows, of which each warp has 16, and
// the tiles that it goes over have the same size.
#pragma once
#include "core/cuda/dynamic_shared.cuh"
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/attention_mma.cuh"
#include "models/kernels/cuda/attention_warpgroup.h"
#include "models/kernels/cuda/warpgroup.cuh"

namespace zrt::models::cuda::warpgroup {

inline constexpr int half_width = 64, others = 64, steps = others / 16;

// 64 rows; each half of the columns is a tile as the instructions know them.
template <int halves>
struct GroupTile {
  using Half = SharedTile<half_width>;
  static constexpr int chunks = halves * Half::chunks;
  static constexpr uint32_t half_bytes = group_rows * Half::row_bytes, bytes = halves * half_bytes;

  __device__ static uint32_t offset(int row, int chunk) {
    return static_cast<uint32_t>(chunk / Half::chunks) * half_bytes + Half::offset(row, chunk % Half::chunks);
  }
  template <class E>
  __device__ static void load(uint32_t to, const E* from, int64_t stride, int valid_rows, int valid_width) {
#pragma unroll
    for (int half = 0; half < halves; ++half) {
      Half::load<group_rows, group_threads>(to + static_cast<uint32_t>(half) * half_bytes, from + half * half_width,
                                            stride, valid_rows, valid_width - half * half_width);
    }
  }
};
static_assert(others == group_rows);

// Dynamic shared memory from a multiple of what tiles must begin at; a launch asks for so much more.
__device__ inline std::byte* shared_tiles() {
  std::byte* const shared = core::cuda::dynamic_shared<std::byte>();
  const uint32_t rest = shared_address(shared) % tile_align;
  return shared + (rest == 0 ? 0 : tile_align - rest);
}

// c = rows of a tile · the transposed tile b, as a batch of products. (As registers that live as long as a loop the
// rows would get lost: ptxas 13.0 takes left operands for dead behind a product.)
template <class E, int halves>
__device__ inline void row_products(float (&c)[1][others / 8][4], uint32_t a, uint32_t b) {
#pragma unroll
  for (int half = 0; half < halves; ++half) {
    const uint32_t at = static_cast<uint32_t>(half) * GroupTile<halves>::half_bytes;
#pragma unroll
    for (int step = 0; step < half_width / 16; ++step)
      multiply<E, false>(c[0], rows_operand(a + at, step), rows_operand(b + at, step), half + step > 0);
  }
  end_products();
}
// c += p · tile b, whose rows are the columns of p, as a batch. One product has all columns: ptxas must not meet p
// twice.
template <class E, int halves>
__device__ inline void accumulate(float (&c)[1][8 * halves][4], uint32_t (&p)[1][steps][4], uint32_t b) {
  begin_products(c[0], p[0]);
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const uint64_t columns =
        halves == 1 ? turned_operand(b, step) : turned_operand(b, step, GroupTile<halves>::half_bytes);
    multiply<E, true>(c[0], p[0][step], columns, true);
  }
  end_products();
}

// The blocks of a.order.
inline void run(void (*kernel)(AttentionArgs), uint32_t tiles, const AttentionArgs& a) {
  const size_t bytes = tiles + tile_align;
  ZRT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  core::cuda::launch(kernel, static_cast<unsigned>(a.order.blocks()), group_threads, bytes, a);
}

}  // namespace zrt::models::cuda::warpgroup
