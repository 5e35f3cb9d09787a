// The order in which the blocks of an attention kernel take tiles of heads: chunks of heads whose keys and values fit
// the L2 cache, one after the other, and within a chunk the longest tiles of all its heads first, so that the last
// blocks to run are short ones.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/host_device.h"

namespace zrt::models::cuda {

struct TileOrder {
  struct Item {
    int head = 0;  // sample · heads + head
    int rank = 0;  // 0 is the tile with the most work
  };
  int heads = 1;  // of all samples
  int tiles = 1;  // of a head
  int chunk = 1;  // heads

  ZRT_HD Item at(int block) const {
    const int first = block / (chunk * tiles) * chunk, rest = block - first * tiles;
    const int here = heads - first < chunk ? heads - first : chunk;
    return {first + rest % here, rest / here};
  }
  int blocks() const { return heads * tiles; }
};

// `head_bytes`: what the tiles of a head read again and again.
inline TileOrder tile_order(int64_t heads, int64_t T, int64_t tile, int64_t head_bytes) {
  constexpr int64_t cached = int64_t{16} << 20;
  const int64_t chunk = std::clamp<int64_t>(cached / std::max<int64_t>(head_bytes, 1), 1, heads);
  return {static_cast<int>(heads), static_cast<int>((T + tile - 1) / tile), static_cast<int>(chunk)};
}

}  // namespace zrt::models::cuda
