#include "core/cuda/dynamic_shared.cuh"
#include "core/cuda/launch.cuh"
#include "models/kernels/attention.h"
#include "models/kernels/cuda/attention_args.cuh"
#include "models/kernels/cuda/attention_mma.cuh"
#include "models/kernels/cuda/attention_softmax.cuh"
#include "models/kernels/cuda/attention_units.cuh"
#include "models/kernels/cuda/attention_warpgroup.h"

namespace zrt::models::cuda {
namespace {

// A block takes 128 queries of a head, each of its four warps 32, and goes over the keys in tiles with an online
// softmax. While a tile is worked on the next one is on its way.
constexpr int warps = 4, threads = 32 * warps;
constexpr int M = 2, warp_rows = 16 * M, block_rows = warps * warp_rows;
// Keys of a tile: as many as leave the scores of a tile room in 255 registers, beside the results.
template <int width, bool drops>
constexpr int keys_of = width > 80 || drops ? 32 : 64;

template <int width, bool drops>
constexpr int shared_bytes = (block_rows + 4 * keys_of<width, drops>)*width * 2;

// sparse: the tiles are of listed units.
template <class E, int width, bool drops, bool sparse>
__global__ void __launch_bounds__(threads, 2) forward_kernel(const AttentionArgs a) {
  using Tile = SharedTile<width>;
  constexpr int block_keys = keys_of<width, drops>, N = block_keys / 8, units = block_keys / unit_rows;
  std::byte* const shared = core::cuda::dynamic_shared<std::byte>();
  const uint32_t q_tile = shared_address(shared), kv_tiles = q_tile + block_rows * Tile::row_bytes;
  constexpr uint32_t kv_bytes = block_keys * Tile::row_bytes;

  const TileOrder::Item item = a.order.at(static_cast<int>(blockIdx.x));
  const int b = item.head / a.heads, head = item.head % a.heads, shared_head = head / a.group();
  const int first = (a.order.tiles - 1 - item.rank) * block_rows;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * warp_rows;
  const int64_t row = a.row();
  const E* const k = static_cast<const E*>(a.qkv) + a.keys(b, shared_head);
  const E* const v = static_cast<const E*>(a.qkv) + a.values(b, shared_head);
  UnitList& list = *reinterpret_cast<UnitList*>(shared + shared_bytes<width, drops>);
  const auto load_keys = [&](int tile) {
    const uint32_t to = kv_tiles + static_cast<uint32_t>(tile % 2) * 2 * kv_bytes;
    if constexpr (sparse) {
      load_units<width, block_keys, threads>(to, k, row, list.units + tile * units, a.T, a.width);
      load_units<width, block_keys, threads>(to + kv_bytes, v, row, list.units + tile * units, a.T, a.width);
    } else {
      const int begin = tile * block_keys;
      Tile::template load<block_keys, threads>(to, k + begin * row, row, a.T - begin, a.width);
      Tile::template load<block_keys, threads>(to + kv_bytes, v + begin * row, row, a.T - begin, a.width);
    }
  };
  Tile::template load<block_rows, threads>(q_tile, static_cast<const E*>(a.qkv) + a.queries(b, head) + first * row, row,
                                           a.T - first, a.width);
  const KeptUnits kept_units(a, b, head);
  if constexpr (sparse) {
    list_units(list, kept_units.units, units, [&](int unit) {
      return kept_units.any_keeps(first / unit_rows, (first + block_rows) / unit_rows, unit);
    });
  }
  load_keys(0);

  float out[M][width / 8][4] = {};
  OnlineSoftmax<M> softmax;
  const float scale = a.scale * log2_e;
  const int warp_first = first + warp_row;

  const int tiles = sparse ? list.count / units : a.last_key(min(first + block_rows, a.T) - 1) / block_keys + 1;
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_copies();
    __syncthreads();  // the tile has come, and nobody reads the one before any more
    if (tile + 1 < tiles) load_keys(tile + 1);
    const int key = tile * block_keys;
    unsigned kept = all_kept<M, units>;
    if constexpr (sparse) {
      kept = kept_bits<M, units>(
          [&](int m, int i) { return kept_units.keeps(warp_first / unit_rows + m, list.units[tile * units + i]); });
      if (kept == 0) continue;
    } else {
      if (key > a.last_key(warp_first + warp_rows - 1)) continue;
    }
    // Position of the first of eight columns.
    const auto key_of = [&](int n) {
      if constexpr (sparse) return unit_position(list.units + tile * units, 8 * n);
      return key + 8 * n;
    };
    const uint32_t k_tile = kv_tiles + static_cast<uint32_t>(tile % 2) * 2 * kv_bytes, v_tile = k_tile + kv_bytes;

    float s[M][N][4];
    row_products<E, width>(s, q_tile, warp_row, k_tile);
    if (sparse ? kept != all_kept<M, units> || key_of(N - 1) + 7 > a.last_key(warp_first) ||
                     key_of(0) < a.first_key(b, warp_first + warp_rows - 1)
               : key + block_keys - 1 > a.last_key(warp_first)) {
      fill_where(s, -INFINITY, [&](int m, int n, int r, int c) {
        const int query = warp_first + 16 * m + r, at = key_of(n) + c;
        return (sparse && ((kept >> (m * units + n / 2) & 1) == 0 || at < a.first_key(b, query))) ||
               at > a.last_key(query);
      });
    }
    // In dense attention every query sees key 0, so the maximum is finite from the first tile on.
    float shrink[M][2];
    softmax.template step<sparse>(s, shrink, scale);
    softmax.apply(shrink, out);
    if constexpr (drops) {
#pragma unroll
      for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint64_t element = a.element(b, head, warp_first + 16 * m + 8 * half + lane / 4);
#pragma unroll 1
          for (int n = 0; n < N; ++n) {
            const uint64_t at = element + static_cast<uint64_t>(key_of(n) + 2 * (lane % 4));
            const float factors[2] = {dropout_factor(a, at), dropout_factor(a, at + 1)};
#pragma unroll
            for (int j = 0; j < N; ++j) {  // n is no constant here, and registers have no index
              if (j == n) s[m][j][2 * half] *= factors[0], s[m][j][2 * half + 1] *= factors[1];
            }
          }
        }
      }
    }
    uint32_t p[M][N / 2][4];
    pack<E>(p, s);
    accumulate<E, width>(out, p, v_tile);
  }

  float factor[M][2];
  softmax.finish(factor, a.scale, [&](int r, float lse) {
    const int query = warp_first + r;
    if (a.lse != nullptr && query < a.T) a.lse[a.statistics(b, head) + query] = lse;
  });
  E* const to = static_cast<E*>(a.out) + a.output(b, head) + warp_first * a.C();
  store_rows<E, SharedTile<width>>(out, factor, shared, warp_row, a.width,
                                   [&](int r) { return r < a.T - warp_first ? to + r * a.C() : nullptr; });
}

template <class E, int width, bool drops, bool sparse>
void launch(AttentionArgs a) {
  a.order = tile_order(int64_t{a.B} * a.heads, a.T, block_rows, int64_t{a.T} * a.width * 4 / a.group());
  const auto kernel = forward_kernel<E, width, drops, sparse>;
  const size_t bytes = shared_bytes<width, drops> + (sparse ? UnitList::bytes(a.T) : 0);
  ZRT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  core::cuda::launch(kernel, static_cast<unsigned>(a.order.blocks()), threads, bytes, a);
}

}  // namespace

uint64_t attention_forward_workspace(const AttentionShape&) {
  return 0;
}

void attention_forward(const AttentionShape& s, const void* qkv, void* out, float* lse, const Dropout& dropout,
                       uint64_t first_sample, std::byte*) {
  AttentionArgs a = attention_args(s, dropout, first_sample);
  a.qkv = qkv, a.out = out, a.lse = lse;
  const int width = aligned16(qkv, out) ? padded_width(s) : 0;
  if (width == 0) return generic_attention_forward(s.type, a);
  if (warpgroup::takes(s)) return warpgroup::forward(s.type, a);
  with_attention_kernel(s, width,
                        [&]<class E, int padded, bool drops, bool sparse>() { launch<E, padded, drops, sparse>(a); });
}

}  // namespace zrt::models::cuda
