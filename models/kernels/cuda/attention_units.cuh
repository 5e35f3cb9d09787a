// Sparse attention reads units of 16 positions: a block of threads lists in shared memory the units of which any of its
// own rows keeps some, and goes over these alone, as many at a time as a tile has room for.
#pragma once
#include "models/kernels/cuda/attention_args.cuh"
#include "models/kernels/cuda/attention_mma.cuh"

namespace zrt::models::cuda {

inline constexpr int unit_rows = 16;

// The list lies behind the tiles in dynamic shared memory.
struct UnitList {
  static constexpr uint16_t none = 0xffff;  // fills the last tile
  static constexpr int most_own = 8;        // that a block has as its rows
  int count = 0;                            // a whole number of tiles
  uint16_t own[most_own];
  uint16_t units[1];  // as many as there are, ascending, and those that fill the last tile

  static size_t bytes(int64_t T) { return sizeof(UnitList) + 2 * static_cast<size_t>(T / unit_rows + 1 + most_own); }
};

// The pattern of a head and the documents of a sample, asked by units.
struct KeptUnits {
  const AttentionArgs& args;
  int b;  // the sample
  HeadPattern pattern;
  ShortDivision by_block;  // units of a block
  int units;               // of the sequence

  __device__ KeptUnits(const AttentionArgs& a, int sample, int head)
      : args(a),
        b(sample),
        pattern(a.pattern_of(head)),
        by_block(ShortDivision::by(a.pattern.block / unit_rows)),
        units((a.T + unit_rows - 1) / unit_rows) {}
  // True where a query's unit keeps some of a key's; either may be none or lie behind the end.
  __device__ bool keeps(int query, int key) const {
    if (query >= units || key >= units || !pattern.keeps(by_block.of(query), by_block.of(key))) return false;
    // The first of the queries sees the most keys before them.
    return args.positions == nullptr || (key + 1) * unit_rows > args.document_start(b, query * unit_rows);
  }
  // True where any of the queries [first, end) keeps a key.
  __device__ bool any_keeps(int first, int end, int key) const {
    for (int query = first; query < end; ++query) {
      if (keeps(query, key)) return true;
    }
    return false;
  }
  __device__ bool stands(int unit) const { return pattern.stands(by_block.of(unit)); }
};

// All threads call it; the list may be read when it returns. wanted(unit): whether it is listed.
template <class Wanted>
__device__ inline void list_units(UnitList& list, int units, int in_tile, const Wanted& wanted) {
  __syncthreads();  // nobody reads the one before any more
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x);
    int count = 0;
    for (int begin = 0; begin < units; begin += 32) {
      const bool takes = begin + lane < units && wanted(begin + lane);
      const unsigned taken = __ballot_sync(0xffffffffu, takes);
      if (takes) list.units[count + __popc(taken & ((1u << lane) - 1))] = static_cast<uint16_t>(begin + lane);
      count += __popc(taken);
    }
    if (lane < in_tile) list.units[count + lane] = UnitList::none;
    if (lane == 0) list.count = (count + in_tile - 1) / in_tile * in_tile;
  }
  __syncthreads();
}

// The rows of block `rank` of keys: units that many queries read stand together before the others, so that the warps of
// a block have alike work.
__device__ inline void own_key_units(UnitList& list, const KeptUnits& kept, int rank, int own) {
  if (threadIdx.x < 32) {
    const int lane = static_cast<int>(threadIdx.x), units = kept.units;
    const auto stands = [&](int unit) { return kept.stands(unit); };
    int placed = 0;
    if (lane < own) list.own[lane] = UnitList::none;
    __syncwarp();
    for (int wanted = 1; wanted >= 0; --wanted) {
      for (int begin = 0; begin < units; begin += 32) {
        const bool takes = begin + lane < units && stands(begin + lane) == (wanted == 1);
        const unsigned taken = __ballot_sync(0xffffffffu, takes);
        const int at = placed + __popc(taken & ((1u << lane) - 1)) - rank * own;
        if (takes && at >= 0 && at < own) list.own[at] = static_cast<uint16_t>(begin + lane);
        placed += __popc(taken);
      }
    }
  }
  __syncthreads();
}

// Position of a row of a tile of listed units; T or more where it has none.
__device__ inline int unit_position(const uint16_t* units, int row) {
  return units[row / unit_rows] * unit_rows + row % unit_rows;
}

// Does what SharedTile::load() does, for rows that lie where a list says.
template <int width, int rows, int threads, class E>
__device__ inline void load_units(uint32_t to, const E* from, int64_t stride, const uint16_t* units, int T,
                                  int valid_width) {
  using Tile = SharedTile<width>;
  constexpr int pass = threads / Tile::chunks / 8 * 8;
  const int row = static_cast<int>(threadIdx.x) / Tile::chunks, chunk = static_cast<int>(threadIdx.x) % Tile::chunks;
  if (pass * Tile::chunks != threads && row >= pass) return;
  to += Tile::offset(row, chunk);
#pragma unroll
  for (int begin = 0; begin < rows; begin += pass) {
    const int position = unit_position(units, row + begin);
    const bool valid = position < T && chunk * 8 < valid_width;
    copy16_async(to + static_cast<uint32_t>(begin * Tile::row_bytes),
                 from + (valid ? position : 0) * stride + chunk * 8, valid);
  }
}

// A bit for each of M rows of pieces of a warp and each of `units` of a tile: whether the one keeps the other. The
// whole warp calls it. kept(m, unit)
template <int M, int units, class Kept>
__device__ inline unsigned kept_bits(const Kept& kept) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return __ballot_sync(0xffffffffu, lane < M * units && kept(lane / units, lane % units));
}
template <int M, int units>
inline constexpr unsigned all_kept = (1u << (M * units)) - 1;

}  // namespace zrt::models::cuda
