// Products of experts with their rows as one grid of tiles, of which each block finds its own: how many rows an expert
// has is known on the GPU alone.
#pragma once
#include "models/kernels/cuda/expert_products.h"
#include "models/kernels/cuda/reduce.cuh"

namespace zrt::models::cuda {

struct ExpertTile {
  int expert = -1;          // none: there are fewer tiles than blocks
  int64_t start = 0;        // the expert's first slot
  int count = 0;            // its rows
  int row = 0, column = 0;  // of the result, where the tile begins
};

// Blocks that run at a time should read few rows and columns: eight tiles of rows by as many of columns as there are.
template <int size>
__device__ inline void place_tile(ExpertTile& tile, int number, int row_tiles, int column_tiles) {
  const int strip = 8 * column_tiles, first = number / strip * 8, rows = min(8, row_tiles - first);
  tile.row = (first + number % strip % rows) * size;
  tile.column = number % strip / rows * size;
}

// All lanes of a warp call it together.
template <ExpertRole role, int size>
__device__ inline ExpertTile own_tile(const ExpertCall& call) {
  const int lane = static_cast<int>(threadIdx.x) % 32, block = static_cast<int>(blockIdx.x);
  const int column_tiles = (call.N + size - 1) / size;
  ExpertTile tile;
  if constexpr (role == ExpertRole::weight_gradient) {
    const int row_tiles = (call.M + size - 1) / size, all = row_tiles * column_tiles;
    tile.expert = block / all, tile.count = call.counts[tile.expert];
    place_tile<size>(tile, block % all, row_tiles, column_tiles);
  } else {
    int before = 0;
    for (int begin = 0; begin < call.experts && tile.expert < 0; begin += 32) {
      const int count = begin + lane < call.experts ? call.counts[begin + lane] : 0;
      const int row_tiles = (count + size - 1) / size, up_to = warp_sum_up_to(row_tiles * column_tiles);
      const unsigned behind = __ballot_sync(all_lanes, block < before + up_to);
      if (behind != 0) {
        const int first = __ffs(static_cast<int>(behind)) - 1;
        const int own_tiles = __shfl_sync(all_lanes, row_tiles, first);
        const int number = block - before - __shfl_sync(all_lanes, up_to, first) + own_tiles * column_tiles;
        tile.expert = begin + first, tile.count = __shfl_sync(all_lanes, count, first);
        place_tile<size>(tile, number, own_tiles, column_tiles);
      }
      before += __shfl_sync(all_lanes, up_to, 31);
    }
  }
  if (tile.expert >= 0) tile.start = call.starts[tile.expert];
  return tile;
}

// Says of the result where the tile's rows go, and how many there are.
struct TileTarget {
  GradTarget to;
  int64_t first;  // row of `to`
  int rows;
};
template <ExpertRole role>
__device__ inline TileTarget target_of(const ExpertCall& call, const ExpertTile& tile) {
  if constexpr (role == ExpertRole::weight_gradient) {
    const GradTarget to{call.matrix[tile.expert], call.c_type, call.accumulate[tile.expert] != 0};
    return {to, tile.row, call.M - tile.row};
  } else {
    const GradTarget to{call.c, call.c_type, call.add};
    return {to, tile.start + tile.row, static_cast<int>(up_to_grain(tile.count)) - tile.row};
  }
}
// Nobody wants the gradient, or nothing is added to it.
__device__ inline bool leaves(const GradTarget& to, int products) {
  return to.data == nullptr || (to.accumulate && products == 0);
}

}  // namespace zrt::models::cuda
