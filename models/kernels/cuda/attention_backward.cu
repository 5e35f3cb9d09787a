#include "core/cuda/dynamic_shared.cuh"
#include "core/cuda/launch.cuh"
#include "models/kernels/attention.h"
#include "models/kernels/cuda/attention_args.cuh"
#include "models/kernels/cuda/attention_mma.cuh"
#include "models/kernels/cuda/attention_statistics.cuh"
#include "models/kernels/cuda/attention_units.cuh"
#include "models/kernels/cuda/attention_warpgroup.h"

namespace zrt::models::cuda {
namespace {

// Two kernels, both of which compute the probabilities again: one goes over the keys of a tile of queries and owns
// their gradients, the other goes over the queries of a tile of keys and owns those of keys and values. That is seven
// products in place of five, but no sum is shared between blocks, so that nothing depends on which block comes first.
constexpr int warps = 4, threads = 32 * warps;

// M: pieces of 16 rows that a warp owns; a block owns rows and goes over tiles of `others`, as many as registers have
// room for.
template <int width, bool drops>
struct QueriesShape {
  static constexpr int M = 2, warp_rows = 16 * M, rows = warps * warp_rows, others = width <= 64 && !drops ? 64 : 32;
  static constexpr int bytes = (2 * rows + 4 * others) * width * 2;
};
template <int width>
struct KeysShape {
  static constexpr int M = width <= 64 ? 2 : 1, warp_rows = 16 * M, rows = warps * warp_rows,
                       others = width <= 64 ? 32 : 64;
  static constexpr int tile_bytes = others * width * 2, stage_bytes = 2 * tile_bytes + 2 * others * 4;
  static constexpr int bytes = 2 * rows * width * 2 + 2 * stage_bytes;
};

template <class E, int width, bool drops, bool sparse>
__global__ void __launch_bounds__(threads, 2) queries_kernel(const AttentionArgs a) {
  using Tile = SharedTile<width>;
  using Shape = QueriesShape<width, drops>;
  constexpr int M = Shape::M, N = Shape::others / 8, others = Shape::others, units = others / unit_rows;
  std::byte* const shared = core::cuda::dynamic_shared<std::byte>();
  const uint32_t q_tile = shared_address(shared), do_tile = q_tile + Shape::rows * Tile::row_bytes,
                 kv_tiles = do_tile + Shape::rows * Tile::row_bytes;
  constexpr uint32_t kv_bytes = others * Tile::row_bytes;

  const TileOrder::Item item = a.order.at(static_cast<int>(blockIdx.x));
  const int b = item.head / a.heads, head = item.head % a.heads, shared_head = head / a.group();
  const int first = (a.order.tiles - 1 - item.rank) * Shape::rows;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * Shape::warp_rows;
  const int warp_first = first + warp_row;
  const int64_t row = a.row(), C = a.C();
  const E* const k = static_cast<const E*>(a.qkv) + a.keys(b, shared_head);
  const E* const v = static_cast<const E*>(a.qkv) + a.values(b, shared_head);
  UnitList& list = *reinterpret_cast<UnitList*>(shared + Shape::bytes);
  const auto load_keys = [&](int tile) {
    const uint32_t to = kv_tiles + static_cast<uint32_t>(tile % 2) * 2 * kv_bytes;
    if constexpr (sparse) {
      load_units<width, others, threads>(to, k, row, list.units + tile * units, a.T, a.width);
      load_units<width, others, threads>(to + kv_bytes, v, row, list.units + tile * units, a.T, a.width);
    } else {
      const int begin = tile * others;
      Tile::template load<others, threads>(to, k + begin * row, row, a.T - begin, a.width);
      Tile::template load<others, threads>(to + kv_bytes, v + begin * row, row, a.T - begin, a.width);
    }
  };
  Tile::template load<Shape::rows, threads>(q_tile, static_cast<const E*>(a.qkv) + a.queries(b, head) + first * row,
                                            row, a.T - first, a.width);
  Tile::template load<Shape::rows, threads>(do_tile, static_cast<const E*>(a.d_out) + a.output(b, head) + first * C, C,
                                            a.T - first, a.width);
  const KeptUnits kept_units(a, b, head);
  if constexpr (sparse) {
    list_units(list, kept_units.units, units, [&](int unit) {
      return kept_units.any_keeps(first / unit_rows, (first + Shape::rows) / unit_rows, unit);
    });
  }
  load_keys(0);
  wait_for_copies();
  __syncthreads();

  float lse[M][2], delta[M][2];
  row_statistics<E, SharedTile<width>>(lse, delta, a, b, head, warp_first, shared + Shape::rows * Tile::row_bytes,
                                       warp_row);

  float dq[M][width / 8][4] = {};
  const float scale = a.scale * log2_e;
  const int tiles = sparse ? list.count / units : a.last_key(min(first + Shape::rows, a.T) - 1) / others + 1;
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_copies();
    __syncthreads();
    if (tile + 1 < tiles) load_keys(tile + 1);
    const int key = tile * others;
    unsigned kept = all_kept<M, units>;
    if constexpr (sparse) {
      kept = kept_bits<M, units>(
          [&](int m, int i) { return kept_units.keeps(warp_first / unit_rows + m, list.units[tile * units + i]); });
      if (kept == 0) continue;
    } else {
      if (key > a.last_key(warp_first + Shape::warp_rows - 1)) continue;
    }
    // Position of the first of eight columns.
    const auto key_of = [&](int n) {
      if constexpr (sparse) return unit_position(list.units + tile * units, 8 * n);
      return key + 8 * n;
    };
    const uint32_t k_tile = kv_tiles + static_cast<uint32_t>(tile % 2) * 2 * kv_bytes, v_tile = k_tile + kv_bytes;

    float p[M][N][4], dp[M][N][4];
    row_products<E, width>(p, q_tile, warp_row, k_tile);
    row_products<E, width>(dp, do_tile, warp_row, v_tile);
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if constexpr (drops) {
            const int query = warp_first + 16 * m + 8 * (i / 2) + lane / 4, at = key_of(n) + 2 * (lane % 4) + i % 2;
            dp[m][n][i] *= dropout_factor(a, a.element(b, head, query) + static_cast<uint64_t>(at));
          }
          p[m][n][i] = exp2_fast(p[m][n][i] * scale - lse[m][i / 2]) * (dp[m][n][i] - delta[m][i / 2]);
        }
      }
    }
    if (kept != all_kept<M, units> || key_of(N - 1) + 7 > a.last_key(warp_first) ||
        (sparse && key_of(0) < a.first_key(b, warp_first + Shape::warp_rows - 1))) {
      fill_where(p, 0, [&](int m, int n, int r, int c) {
        const int query = warp_first + 16 * m + r, at = key_of(n) + c;
        return (sparse && ((kept >> (m * units + n / 2) & 1) == 0 || at < a.first_key(b, query))) ||
               at > a.last_key(query);
      });
    }
    uint32_t ds[M][N / 2][4];
    pack<E>(ds, p);
    accumulate<E, width>(dq, ds, k_tile);
  }

  float factor[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m) factor[m][0] = factor[m][1] = a.scale;
  E* const to = static_cast<E*>(a.d_qkv) + a.queries(b, head) + warp_first * row;
  store_rows<E, SharedTile<width>>(dq, factor, shared, warp_row, a.width,
                                   [&](int r) { return r < a.T - warp_first ? to + r * row : nullptr; });
}

template <class E, int width, bool drops, bool sparse>
__global__ void __launch_bounds__(threads, 2) keys_kernel(const AttentionArgs a) {
  using Tile = SharedTile<width>;
  using Shape = KeysShape<width>;
  constexpr int M = Shape::M, N = Shape::others / 8, others = Shape::others, units = others / unit_rows;
  std::byte* const shared = core::cuda::dynamic_shared<std::byte>();
  constexpr int own_bytes = Shape::rows * Tile::row_bytes;
  const uint32_t k_tile = shared_address(shared), v_tile = k_tile + own_bytes;
  UnitList& list = *reinterpret_cast<UnitList*>(shared + Shape::bytes);

  const TileOrder::Item item = a.order.at(static_cast<int>(blockIdx.x));
  const int b = item.head / a.kv_heads, shared_head = item.head % a.kv_heads;
  const int first = item.rank * Shape::rows;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * Shape::warp_rows;
  const int64_t row = a.row(), C = a.C();
  // Position of a row of the warp's; T or more where it has none.
  const auto key_at = [&](int r) {
    if constexpr (sparse) return unit_position(list.own, warp_row + r);
    return first + warp_row + r;
  };
  {
    const E* const k = static_cast<const E*>(a.qkv) + a.keys(b, shared_head);
    const E* const v = static_cast<const E*>(a.qkv) + a.values(b, shared_head);
    if constexpr (sparse) {
      own_key_units(list, KeptUnits(a, b, shared_head * a.group()), item.rank, Shape::rows / unit_rows);
      load_units<width, Shape::rows, threads>(k_tile, k, row, list.own, a.T, a.width);
      load_units<width, Shape::rows, threads>(v_tile, v, row, list.own, a.T, a.width);
    } else {
      Tile::template load<Shape::rows, threads>(k_tile, k + first * row, row, a.T - first, a.width);
      Tile::template load<Shape::rows, threads>(v_tile, v + first * row, row, a.T - first, a.width);
    }
  }

  // Steps: the tiles of queries, where attention is causal from the diagonal on, for one head of the group after the
  // other; with a pattern, heads have lists of their own.
  const int first_tile = sparse || !a.pattern.causal ? 0 : first / others,
            dense_tiles = (a.T + others - 1) / others - first_tile;
  float dk[M][width / 8][4] = {}, dv[M][width / 8][4] = {};
  const float scale = a.scale * log2_e;
  int warp_last = 0;  // the last position of the warp's keys, which listed units do not have in order
#pragma unroll
  for (int m = 0; m < M; ++m) warp_last = max(warp_last, key_at(16 * m + 15));
  for (int listed = 0; listed < (sparse ? a.group() : 1); ++listed) {
    const KeptUnits kept_units(a, b, shared_head * a.group() + listed);
    if constexpr (sparse) {
      list_units(list, kept_units.units, units, [&](int unit) {
        bool any = false;
        for (int i = 0; i < Shape::rows / unit_rows; ++i) any = any || kept_units.keeps(unit, list.own[i]);
        return any;
      });
    }
    const int tiles = sparse ? list.count / units : dense_tiles, steps = sparse ? tiles : tiles * a.group();
    if (steps == 0) continue;
    const auto head_of = [&](int step) { return shared_head * a.group() + (sparse ? listed : step / tiles); };
    // Position of the first of eight columns.
    const auto query_of = [&](int step, int n) {
      if constexpr (sparse) return unit_position(list.units + step * units, 8 * n);
      return (first_tile + step % tiles) * others + 8 * n;
    };
    const auto load_queries = [&](int step) {
      const int head = head_of(step);
      const uint32_t to = k_tile + 2 * own_bytes + static_cast<uint32_t>(step % 2) * Shape::stage_bytes;
      const E* const q = static_cast<const E*>(a.qkv) + a.queries(b, head);
      const E* const d_out = static_cast<const E*>(a.d_out) + a.output(b, head);
      if constexpr (sparse) {
        load_units<width, others, threads>(to, q, row, list.units + step * units, a.T, a.width);
        load_units<width, others, threads>(to + Shape::tile_bytes, d_out, C, list.units + step * units, a.T, a.width);
      } else {
        const int begin = query_of(step, 0);
        Tile::template load<others, threads>(to, q + begin * row, row, a.T - begin, a.width);
        Tile::template load<others, threads>(to + Shape::tile_bytes, d_out + begin * C, C, a.T - begin, a.width);
      }
      // Queries behind the end are rows of zeros, so any finite statistics do.
      const int i = static_cast<int>(threadIdx.x) % others, query = query_of(step, i / 8) + i % 8;
      if (threadIdx.x < 2 * others) {
        const float* from = (threadIdx.x < others ? a.lse : a.delta) + a.statistics(b, head);
        const bool valid = query < a.T;
        copy4_async(to + 2 * Shape::tile_bytes + threadIdx.x * 4, valid ? from + query : from, valid);
      }
    };
    load_queries(0);

    for (int step = 0; step < steps; ++step) {
      wait_for_copies();
      __syncthreads();
      if (step + 1 < steps) load_queries(step + 1);
      unsigned kept = all_kept<M, units>;
      if constexpr (sparse) {
        kept = kept_bits<M, units>([&](int m, int i) {
          return kept_units.keeps(list.units[step * units + i], list.own[warp_row / unit_rows + m]);
        });
        if (kept == 0) continue;
      } else {
        if (key_at(0) > a.last_key(query_of(step, N - 1) + 7)) continue;
      }
      const int stage = 2 * own_bytes + step % 2 * Shape::stage_bytes;
      const uint32_t q_tile = k_tile + static_cast<uint32_t>(stage), do_tile = q_tile + Shape::tile_bytes;
      const float2* lse = reinterpret_cast<const float2*>(shared + stage + 2 * Shape::tile_bytes) + lane % 4;
      const float2* delta = lse + others / 2;

      // Rows are keys and columns queries, so that both gradients have the probabilities on the left.
      float p[M][N][4];
      row_products<E, width>(p, k_tile, warp_row, q_tile);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float2 both = lse[4 * n];
        const float shift[2] = {both.x * log2_e, both.y * log2_e};
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) p[m][n][i] = exp2_fast(p[m][n][i] * scale - shift[i % 2]);
        }
      }
      if (kept != all_kept<M, units> || warp_last > a.last_key(query_of(step, 0)) ||
          (sparse && (a.pattern.window > 0 || a.positions != nullptr))) {
        fill_where(p, 0, [&](int m, int n, int r, int c) {
          const int key = key_at(16 * m + r), at = query_of(step, n) + c;
          return (sparse && ((kept >> (m * units + n / 2) & 1) == 0 || key < a.first_key(b, at))) ||
                 key > a.last_key(at);
        });
      }
      uint32_t left[M][N / 2][4];
      float drop[drops ? M : 1][drops ? N : 1][4];
      if constexpr (drops) {
        const int head = head_of(step);
        float dropped[M][N][4];
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
          for (int n = 0; n < N; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const int key = key_at(16 * m + 8 * (i / 2) + lane / 4), at = query_of(step, n) + 2 * (lane % 4) + i % 2;
              drop[m][n][i] = dropout_factor(a, a.element(b, head, at) + static_cast<uint64_t>(key));
              dropped[m][n][i] = p[m][n][i] * drop[m][n][i];
            }
          }
        }
        pack<E>(left, dropped);
      } else {
        pack<E>(left, p);
      }
      accumulate<E, width>(dv, left, do_tile);

      float dp[M][N][4];
      row_products<E, width>(dp, v_tile, warp_row, do_tile);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float2 both = delta[4 * n];
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if constexpr (drops) dp[m][n][i] *= drop[m][n][i];
            p[m][n][i] *= dp[m][n][i] - (i % 2 == 0 ? both.x : both.y);
          }
        }
      }
      pack<E>(left, p);
      accumulate<E, width>(dk, left, q_tile);
    }
  }

  float ones[M][2], factor[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m) ones[m][0] = ones[m][1] = 1, factor[m][0] = factor[m][1] = a.scale;
  const auto place = [&](int64_t begin) {
    return
        [&, to = static_cast<E*>(a.d_qkv) + begin](int r) { return key_at(r) < a.T ? to + key_at(r) * row : nullptr; };
  };
  store_rows<E, SharedTile<width>>(dk, factor, shared, warp_row, a.width, place(a.keys(b, shared_head)));
  store_rows<E, SharedTile<width>>(dv, ones, shared + own_bytes, warp_row, a.width, place(a.values(b, shared_head)));
}

template <class E, int width, bool drops, bool sparse>
void launch(AttentionArgs a) {
  const auto run = [&](auto kernel, int tiles) {
    const size_t bytes = static_cast<size_t>(tiles) + (sparse ? UnitList::bytes(a.T) : 0);
    ZRT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
    core::cuda::launch(kernel, static_cast<unsigned>(a.order.blocks()), threads, bytes, a);
  };
  const int64_t tensor = int64_t{a.T} * a.width * 2;  // of one head
  a.order = tile_order(int64_t{a.B} * a.heads, a.T, QueriesShape<width, drops>::rows, 2 * tensor / a.group());
  run(queries_kernel<E, width, drops, sparse>, QueriesShape<width, drops>::bytes);
  a.order = tile_order(int64_t{a.B} * a.kv_heads, a.T, KeysShape<width>::rows, 2 * tensor * a.group());
  run(keys_kernel<E, width, drops, sparse>, KeysShape<width>::bytes);
}

}  // namespace

uint64_t attention_backward_workspace(const AttentionShape& s) {
  return static_cast<uint64_t>(s.B * s.heads * s.T) * 4;
}

void attention_backward(const AttentionShape& s, const void* qkv, const void* out, const float* lse, const void* d_out,
                        void* d_qkv, const Dropout& dropout, uint64_t first_sample, std::byte* workspace) {
  AttentionArgs a = attention_args(s, dropout, first_sample);
  a.qkv = qkv, a.out = const_cast<void*>(out), a.lse = const_cast<float*>(lse);
  a.d_out = d_out, a.d_qkv = d_qkv, a.delta = reinterpret_cast<float*>(workspace);
  const int width = aligned16(qkv, out, d_out, d_qkv) ? padded_width(s) : 0;
  if (width == 0) return generic_attention_backward(s.type, a);
  if (warpgroup::takes(s)) return warpgroup::backward(s.type, a);
  with_attention_kernel(s, width,
                        [&]<class E, int padded, bool drops, bool sparse>() { launch<E, padded, drops, sparse>(a); });
}

}  // namespace zrt::models::cuda
