// Does what attention_backward.cu does, in two kernels: a block of the one has 64 queries of a head, one of the other
// 64 keys.
#include "models/kernels/cuda/attention_statistics.cuh"
#include "models/kernels/cuda/attention_warpgroup.cuh"

namespace zrt::models::cuda::warpgroup {
namespace {

template <int halves>
constexpr uint32_t queries_bytes = 6 * GroupTile<halves>::bytes;

template <class E, int halves, bool documents>
__global__ void __launch_bounds__(group_threads, halves == 1 ? (documents ? 3 : 4) : 2)
    queries_kernel(const AttentionArgs a) {
  using Tile = GroupTile<halves>;
  constexpr uint32_t tile_bytes = Tile::bytes;
  std::byte* const shared = shared_tiles();
  const uint32_t q_tile = shared_address(shared), do_tile = q_tile + tile_bytes, kv_tiles = do_tile + tile_bytes;
  const TileOrder::Item item = a.order.at(static_cast<int>(blockIdx.x));
  const int b = item.head / a.heads, head = item.head % a.heads, shared_head = head / a.group();
  const int first = (a.order.tiles - 1 - item.rank) * group_rows;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16, warp_first = first + warp_row;
  const int64_t row = a.row(), C = a.C();
  const E* const k = static_cast<const E*>(a.qkv) + a.keys(b, shared_head);
  const E* const v = static_cast<const E*>(a.qkv) + a.values(b, shared_head);
  const auto tiles_of = [&](int tile) { return kv_tiles + static_cast<uint32_t>(tile % 2) * 2 * tile_bytes; };
  const auto load_keys = [&](int tile) {
    const int begin = tile * others;
    Tile::load(tiles_of(tile), k + begin * row, row, a.T - begin, a.width);
    Tile::load(tiles_of(tile) + tile_bytes, v + begin * row, row, a.T - begin, a.width);
  };
  Tile::load(q_tile, static_cast<const E*>(a.qkv) + a.queries(b, head) + first * row, row, a.T - first, a.width);
  Tile::load(do_tile, static_cast<const E*>(a.d_out) + a.output(b, head) + first * C, C, a.T - first, a.width);
  const int begin_tile = documents ? a.document_start(b, first) / others : 0;
  load_keys(begin_tile);
  wait_for_copies();
  __syncthreads();
  float lse[1][2], delta[1][2];
  row_statistics<E, Tile>(lse, delta, a, b, head, warp_first, shared + tile_bytes, warp_row);

  float dq[1][Tile::chunks][4] = {};
  const float scale = a.scale * log2_e;
  const int tiles = a.last_key(min(first + group_rows, a.T) - 1) / others + 1;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int tile = begin_tile; tile < tiles; ++tile) {
    wait_for_copies();
    fence_tiles();
    __syncthreads();
    if (tile + 1 < tiles) load_keys(tile + 1);
    const int key = tile * others;
    const uint32_t k_tile = tiles_of(tile), v_tile = k_tile + tile_bytes;

    float p[1][others / 8][4], dp[1][others / 8][4];
    begin_products();
    row_products<E, halves>(p, q_tile, k_tile);
    row_products<E, halves>(dp, do_tile, v_tile);
    wait_for_products<1>(p[0]);
#pragma unroll
    for (int n = 0; n < others / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) p[0][n][i] = exp2_fast(p[0][n][i] * scale - lse[0][i / 2]);
    }
    wait_for_products<0>(dp[0]);
#pragma unroll
    for (int n = 0; n < others / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) p[0][n][i] *= dp[0][n][i] - delta[0][i / 2];
    }
    if (key + others - 1 > a.last_key(warp_first) || (documents && key < a.document_start(b, warp_first + 15))) {
      // They are loaded here, and not in front of the loop, for want of registers.
      const int start = documents ? a.document_start(b, warp_first + lane / 4) : 0,
                later = documents ? a.document_start(b, warp_first + lane / 4 + 8) : 0;
      fill_where(p, 0, [&](int, int n, int r, int c) {
        const int at = key + 8 * n + c;
        return at > a.last_key(warp_first + r) || (documents && at < (r == lane / 4 ? start : later));
      });
    }
    uint32_t ds[1][steps][4];
    pack<E>(ds, p);
    accumulate<E, halves>(dq, ds, k_tile);
    wait_for_products<0>(dq[0]);
  }
  __syncthreads();  // nobody multiplies by the tile that results go through

  const float factor[1][2] = {{a.scale, a.scale}};
  E* const to = static_cast<E*>(a.d_qkv) + a.queries(b, head) + warp_first * row;
  store_rows<E, Tile>(dq, factor, shared, warp_row, a.width,
                      [&](int r) { return r < a.T - warp_first ? to + r * row : nullptr; });
}

// Counts the tiles of queries from `first` on that hold one whose document begins at `last_key` or before. All threads
// of a warp call it.
__device__ int query_tiles(const AttentionArgs& a, int b, int first, int last_key) {
  int tiles = 0;
  for (int begin = 0;; begin += 32) {
    const int query = first + (begin + static_cast<int>(threadIdx.x) % 32) * others;
    const int found = __popc(__ballot_sync(0xffffffffu, query < a.T && a.document_start(b, query) <= last_key));
    tiles += found;
    if (found < 32) return tiles;
  }
}

// The bytes of a tile of queries and d_out, and of their statistics and positions, which end at the next place where
// tiles may begin.
template <int halves>
constexpr uint32_t stage_bytes_of = 2 * GroupTile<halves>::bytes + tile_align;
template <int halves>
constexpr uint32_t keys_bytes = 2 * GroupTile<halves>::bytes + 2 * stage_bytes_of<halves>;
static_assert(3 * others * sizeof(float) <= tile_align);

template <class E, int halves, bool documents>
__global__ void __launch_bounds__(group_threads, halves == 1 && !documents ? 3 : 2) keys_kernel(const AttentionArgs a) {
  using Tile = GroupTile<halves>;
  constexpr uint32_t tile_bytes = Tile::bytes, stage_bytes = stage_bytes_of<halves>;
  std::byte* const shared = shared_tiles();
  const uint32_t k_tile = shared_address(shared), v_tile = k_tile + tile_bytes;
  const TileOrder::Item item = a.order.at(static_cast<int>(blockIdx.x));
  const int b = item.head / a.kv_heads, shared_head = item.head % a.kv_heads;
  const int first = item.rank * group_rows;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int warp_first = first + warp_row;
  const int64_t row = a.row(), C = a.C();
  Tile::load(k_tile, static_cast<const E*>(a.qkv) + a.keys(b, shared_head) + first * row, row, a.T - first, a.width);
  Tile::load(v_tile, static_cast<const E*>(a.qkv) + a.values(b, shared_head) + first * row, row, a.T - first, a.width);

  // The tiles of queries, where attention is causal from the diagonal on, for one head of the group after the other.
  // Those behind the document of the block's last key do not see its keys.
  const int first_query = a.pattern.causal ? first : 0,
            tiles = documents ? query_tiles(a, b, first, first + group_rows - 1)
                              : (a.T - first_query + others - 1) / others,
            end_query = first_query + tiles * others, all = tiles * a.group();
  int next_head = shared_head * a.group(), next_query = first_query;
  const auto load_queries = [&](int step) {
    const uint32_t to = v_tile + tile_bytes + static_cast<uint32_t>(step % 2) * stage_bytes;
    const E* const q = static_cast<const E*>(a.qkv) + a.queries(b, next_head) + next_query * row;
    const E* const d_out = static_cast<const E*>(a.d_out) + a.output(b, next_head) + next_query * C;
    Tile::load(to, q, row, a.T - next_query, a.width);
    Tile::load(to + tile_bytes, d_out, C, a.T - next_query, a.width);
    // Queries behind the end are rows of zeros, so any finite statistics do.
    const int query = next_query + static_cast<int>(threadIdx.x) % others;
    const float* from = (threadIdx.x < others ? a.lse : a.delta) + a.statistics(b, next_head);
    copy4_async(to + 2 * tile_bytes + threadIdx.x * 4, query < a.T ? from + query : from, query < a.T);
    if (documents && threadIdx.x < others) {
      const int32_t* const place = a.positions + int64_t{b} * a.T + (query < a.T ? query : 0);
      copy4_async(to + 2 * tile_bytes + (2 * others + threadIdx.x) * 4, place, query < a.T);
    }
  };
  static_assert(group_threads == 2 * others);
  load_queries(0);

  float dk[1][Tile::chunks][4] = {}, dv[1][Tile::chunks][4] = {};
  const float scale = a.scale * log2_e;
  for (int step = 0; step < all; ++step) {
    wait_for_copies();
    fence_tiles();
    __syncthreads();
    const int query = next_query;
    next_query += others;
    if (next_query >= a.T || (documents && next_query >= end_query)) next_query = first_query, ++next_head;
    if (step + 1 < all) load_queries(step + 1);
    const uint32_t stage = 2 * tile_bytes + static_cast<uint32_t>(step % 2) * stage_bytes, q_tile = k_tile + stage,
                   do_tile = q_tile + tile_bytes;
    const float2* lse = reinterpret_cast<const float2*>(shared + stage + 2 * tile_bytes) + lane % 4;
    const float2* delta = lse + others / 2;

    // Rows are keys and columns queries, so that both gradients have the probabilities on the left.
    float p[1][others / 8][4], dp[1][others / 8][4];
    begin_products();
    row_products<E, halves>(p, k_tile, q_tile);
    row_products<E, halves>(dp, v_tile, do_tile);
    wait_for_products<1>(p[0]);
#pragma unroll
    for (int n = 0; n < others / 8; ++n) {
      const float2 both = lse[4 * n];
      const float shift[2] = {both.x * log2_e, both.y * log2_e};
#pragma unroll
      for (int i = 0; i < 4; ++i) p[0][n][i] = exp2_fast(p[0][n][i] * scale - shift[i % 2]);
    }
    // Rows of zeros behind the end do not matter.
    const int32_t* const positions = reinterpret_cast<const int32_t*>(shared + stage + 2 * tile_bytes) + 2 * others;
    if (warp_first + 15 > a.last_key(query) || (documents && warp_first < query + others - 1 - positions[others - 1])) {
      fill_where(p, 0, [&](int, int n, int r, int c) {
        const int at = query + 8 * n + c;
        return warp_first + r > a.last_key(at) || (documents && warp_first + r < at - positions[8 * n + c]);
      });
    }
    uint32_t left[1][steps][4];
    pack<E>(left, p);
    accumulate<E, halves>(dv, left, do_tile);
    wait_for_products<1>(dp[0]);
#pragma unroll
    for (int n = 0; n < others / 8; ++n) {
      const float2 both = delta[4 * n];
#pragma unroll
      for (int i = 0; i < 4; ++i) p[0][n][i] *= dp[0][n][i] - (i % 2 == 0 ? both.x : both.y);
    }
    uint32_t ds[1][steps][4];
    pack<E>(ds, p);
    accumulate<E, halves>(dk, ds, q_tile);
    wait_for_products<0>(dk[0], dv[0]);
  }
  __syncthreads();  // nobody multiplies by the tiles that results go through

  const float ones[1][2] = {{1, 1}}, factor[1][2] = {{a.scale, a.scale}};
  const auto place = [&](int64_t begin) {
    return [&, to = static_cast<E*>(a.d_qkv) + begin](int r) {
      return warp_first + r < a.T ? to + (warp_first + r) * row : nullptr;
    };
  };
  store_rows<E, Tile>(dk, factor, shared, warp_row, a.width, place(a.keys(b, shared_head)));
  store_rows<E, Tile>(dv, ones, shared + tile_bytes, warp_row, a.width, place(a.values(b, shared_head)));
}

template <class E, bool documents>
void queries(const AttentionArgs& a) {
  a.width <= half_width ? run(queries_kernel<E, 1, documents>, queries_bytes<1>, a)
                        : run(queries_kernel<E, 2, documents>, queries_bytes<2>, a);
}
template <class E>
void queries(const AttentionArgs& a) {
  a.positions == nullptr ? queries<E, false>(a) : queries<E, true>(a);
}
template <class E, bool documents>
void keys(const AttentionArgs& a) {
  a.width <= half_width ? run(keys_kernel<E, 1, documents>, keys_bytes<1>, a)
                        : run(keys_kernel<E, 2, documents>, keys_bytes<2>, a);
}
template <class E>
void keys(const AttentionArgs& a) {
  a.positions == nullptr ? keys<E, false>(a) : keys<E, true>(a);
}

}  // namespace

void backward(DType type, AttentionArgs a) {
  const int64_t tensor = int64_t{a.T} * a.width * 2;  // of one head
  a.order = tile_order(int64_t{a.B} * a.heads, a.T, group_rows, 2 * tensor / a.group());
  type == DType::f16 ? queries<__half>(a) : queries<__nv_bfloat16>(a);
  a.order = tile_order(int64_t{a.B} * a.kv_heads, a.T, group_rows, 2 * tensor * a.group());
  type == DType::f16 ? keys<__half>(a) : keys<__nv_bfloat16>(a);
}

}  // namespace zrt::models::cuda::warpgroup
