// Dense attention without dropout of heads of up to 64 elements on GPUs that multiply by groups of four warps (sm_90a).
// The algorithms are those of attention_forward.cu and attention_backward.cu; a group has 64 rows, each of its
// warps 16.
#include "core/cuda/dynamic_shared.cuh"
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/attention_args.cuh"
#include "models/kernels/cuda/attention_mma.cuh"
#include "models/kernels/cuda/attention_softmax.cuh"
#include "models/kernels/cuda/attention_statistics.cuh"
#include "models/kernels/cuda/attention_warpgroup.h"
#include "models/kernels/cuda/warpgroup.cuh"

namespace zrt::models::cuda {
namespace {

constexpr int width = 64, others = 64, steps = width / 16;
using Tile = SharedTile<width>;
constexpr uint32_t tile_bytes = others * Tile::row_bytes;

// Dynamic shared memory from a multiple of what tiles must begin at; a launch asks for so much more.
__device__ std::byte* shared_tiles() {
  std::byte* const shared = core::cuda::dynamic_shared<std::byte>();
  const uint32_t rest = shared_address(shared) % tile_align;
  return shared + (rest == 0 ? 0 : tile_align - rest);
}

// c = rows of a tile · the transposed tile b, as a batch of products.
template <class E>
__device__ void row_products(float (&c)[1][others / 8][4], uint32_t a, uint32_t b) {
#pragma unroll
  for (int step = 0; step < steps; ++step)
    multiply<E, false>(c[0], rows_operand(a, step), rows_operand(b, step), step > 0);
  end_products();
}
// c += p · tile b, whose rows are the columns of p, as a batch.
template <class E>
__device__ void accumulate(float (&c)[1][width / 8][4], const uint32_t (&p)[1][steps][4], uint32_t b) {
  begin_products();
#pragma unroll
  for (int step = 0; step < steps; ++step) multiply<E, true>(c[0], p[0][step], turned_operand(b, step), true);
  end_products();
}

// Groups of a block, which share the tiles that they go over, and blocks of a multiprocessor, by which registers are
// limited.
template <int groups_, int blocks_>
struct BlockShape {
  static constexpr int groups = groups_, blocks = blocks_, threads = groups * group_threads, rows = groups * group_rows;
  static constexpr uint32_t own_bytes = rows * Tile::row_bytes;
};
__device__ int group_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / group_threads, 0);
}

using Forward = BlockShape<2, 2>;
constexpr uint32_t forward_bytes = Forward::own_bytes + 4 * tile_bytes;

template <class E>
__global__ void __launch_bounds__(Forward::threads, Forward::blocks) forward_kernel(const AttentionArgs a) {
  std::byte* const shared = shared_tiles();
  const uint32_t q_tile = shared_address(shared), kv_tiles = q_tile + Forward::own_bytes;
  const TileOrder::Item item = a.order.at(static_cast<int>(blockIdx.x));
  const int b = item.head / a.heads, head = item.head % a.heads, shared_head = head / a.group();
  const int first = (a.order.tiles - 1 - item.rank) * Forward::rows;
  const int group_first = first + group_index() * group_rows;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16, warp_first = first + warp_row;
  const int64_t row = a.row();
  const E* const k = static_cast<const E*>(a.qkv) + a.keys(b, shared_head);
  const E* const v = static_cast<const E*>(a.qkv) + a.values(b, shared_head);
  const auto tiles_of = [&](int tile) { return kv_tiles + static_cast<uint32_t>(tile % 2) * 2 * tile_bytes; };
  const auto load_keys = [&](int tile) {
    const int begin = tile * others;
    Tile::load<others, Forward::threads>(tiles_of(tile), k + begin * row, row, a.T - begin, a.width);
    Tile::load<others, Forward::threads>(tiles_of(tile) + tile_bytes, v + begin * row, row, a.T - begin, a.width);
  };
  Tile::load<Forward::rows, Forward::threads>(q_tile, static_cast<const E*>(a.qkv) + a.queries(b, head) + first * row,
                                              row, a.T - first, a.width);
  load_keys(0);
  wait_for_copies();
  __syncthreads();
  uint32_t q[steps][4];
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    Tile::left(q[step], q_tile + static_cast<uint32_t>(warp_row * Tile::row_bytes), step);
  }

  float out[1][width / 8][4] = {};
  OnlineSoftmax<1> softmax;
  const float scale = a.scale * log2_e;
  const int tiles = a.last_key(min(first + Forward::rows, a.T) - 1) / others + 1;
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_copies();
    fence_tiles();
    __syncthreads();  // the tile has come, and nobody reads the one before any more
    if (tile + 1 < tiles) load_keys(tile + 1);
    const int key = tile * others;
    if (key > a.last_key(group_first + group_rows - 1)) continue;
    const uint32_t k_tile = tiles_of(tile), v_tile = k_tile + tile_bytes;

    float s[1][others / 8][4];
    begin_products();
#pragma unroll
    for (int step = 0; step < steps; ++step) multiply<E, false>(s[0], q[step], rows_operand(k_tile, step), step > 0);
    end_products();
    wait_for_products<0>(s[0]);
    if (key + others - 1 > a.last_key(warp_first)) {
      fill_where(s, -INFINITY, [&](int, int n, int r, int c) { return key + 8 * n + c > a.last_key(warp_first + r); });
    }
    float shrink[1][2];
    softmax.step<false>(s, shrink, scale);
    softmax.apply(shrink, out);
    uint32_t p[1][steps][4];
    pack<E>(p, s);
    accumulate<E>(out, p, v_tile);
    wait_for_products<0>(out[0]);
  }

  float factor[1][2];
  softmax.finish(factor, a.scale, [&](int r, float lse) {
    const int query = warp_first + r;
    if (a.lse != nullptr && query < a.T) a.lse[a.statistics(b, head) + query] = lse;
  });
  E* const to = static_cast<E*>(a.out) + a.output(b, head) + warp_first * a.C();
  store_rows<E, width>(out, factor, shared, warp_row, a.width,
                       [&](int r) { return r < a.T - warp_first ? to + r * a.C() : nullptr; });
}

using Queries = BlockShape<1, 3>;
constexpr uint32_t queries_bytes = 2 * Queries::own_bytes + 4 * tile_bytes;

template <class E>
__global__ void __launch_bounds__(Queries::threads, Queries::blocks) queries_kernel(const AttentionArgs a) {
  std::byte* const shared = shared_tiles();
  const uint32_t q_tile = shared_address(shared), do_tile = q_tile + Queries::own_bytes,
                 kv_tiles = do_tile + Queries::own_bytes;
  const TileOrder::Item item = a.order.at(static_cast<int>(blockIdx.x));
  const int b = item.head / a.heads, head = item.head % a.heads, shared_head = head / a.group();
  const int first = (a.order.tiles - 1 - item.rank) * Queries::rows, group = group_index();
  const int group_last = first + group * group_rows + group_rows - 1;
  const uint32_t group_tile = static_cast<uint32_t>(group) * tile_bytes;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16, warp_first = first + warp_row;
  const int64_t row = a.row(), C = a.C();
  const E* const k = static_cast<const E*>(a.qkv) + a.keys(b, shared_head);
  const E* const v = static_cast<const E*>(a.qkv) + a.values(b, shared_head);
  const auto tiles_of = [&](int tile) { return kv_tiles + static_cast<uint32_t>(tile % 2) * 2 * tile_bytes; };
  const auto load_keys = [&](int tile) {
    const int begin = tile * others;
    Tile::load<others, Queries::threads>(tiles_of(tile), k + begin * row, row, a.T - begin, a.width);
    Tile::load<others, Queries::threads>(tiles_of(tile) + tile_bytes, v + begin * row, row, a.T - begin, a.width);
  };
  Tile::load<Queries::rows, Queries::threads>(q_tile, static_cast<const E*>(a.qkv) + a.queries(b, head) + first * row,
                                              row, a.T - first, a.width);
  Tile::load<Queries::rows, Queries::threads>(do_tile, static_cast<const E*>(a.d_out) + a.output(b, head) + first * C,
                                              C, a.T - first, a.width);
  load_keys(0);
  wait_for_copies();
  __syncthreads();
  float lse[1][2], delta[1][2];
  row_statistics<E, width>(lse, delta, a, b, head, warp_first, shared + Queries::own_bytes, warp_row);

  float dq[1][width / 8][4] = {};
  const float scale = a.scale * log2_e;
  const int tiles = a.last_key(min(first + Queries::rows, a.T) - 1) / others + 1;
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_copies();
    fence_tiles();
    __syncthreads();
    if (tile + 1 < tiles) load_keys(tile + 1);
    const int key = tile * others;
    if (Queries::groups > 1 && key > a.last_key(group_last)) continue;
    const uint32_t k_tile = tiles_of(tile), v_tile = k_tile + tile_bytes;

    float p[1][others / 8][4], dp[1][others / 8][4];
    begin_products();
    row_products<E>(p, q_tile + group_tile, k_tile);
    row_products<E>(dp, do_tile + group_tile, v_tile);
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
    if (key + others - 1 > a.last_key(warp_first)) {
      fill_where(p, 0, [&](int, int n, int r, int c) { return key + 8 * n + c > a.last_key(warp_first + r); });
    }
    uint32_t ds[1][steps][4];
    pack<E>(ds, p);
    accumulate<E>(dq, ds, k_tile);
    wait_for_products<0>(dq[0]);
  }
  __syncthreads();  // nobody multiplies by the tile that results go through

  const float factor[1][2] = {{a.scale, a.scale}};
  E* const to = static_cast<E*>(a.d_qkv) + a.queries(b, head) + warp_first * row;
  store_rows<E, width>(dq, factor, shared, warp_row, a.width,
                       [&](int r) { return r < a.T - warp_first ? to + r * row : nullptr; });
}

// Of a tile of queries and d_out, and of their statistics, which end at the next place where tiles may begin.
using Keys = BlockShape<1, 3>;
constexpr uint32_t stage_bytes = 2 * tile_bytes + tile_align, keys_bytes = 2 * Keys::own_bytes + 2 * stage_bytes;
static_assert(2 * others * sizeof(float) <= tile_align);

template <class E>
__global__ void __launch_bounds__(Keys::threads, Keys::blocks) keys_kernel(const AttentionArgs a) {
  std::byte* const shared = shared_tiles();
  const uint32_t k_tile = shared_address(shared), v_tile = k_tile + Keys::own_bytes;
  const TileOrder::Item item = a.order.at(static_cast<int>(blockIdx.x));
  const int b = item.head / a.kv_heads, shared_head = item.head % a.kv_heads;
  const int first = item.rank * Keys::rows, group_first = first + group_index() * group_rows;
  const uint32_t group_tile = static_cast<uint32_t>(group_first - first) * Tile::row_bytes;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int warp_first = first + warp_row;
  const int64_t row = a.row(), C = a.C();
  Tile::load<Keys::rows, Keys::threads>(k_tile, static_cast<const E*>(a.qkv) + a.keys(b, shared_head) + first * row,
                                        row, a.T - first, a.width);
  Tile::load<Keys::rows, Keys::threads>(v_tile, static_cast<const E*>(a.qkv) + a.values(b, shared_head) + first * row,
                                        row, a.T - first, a.width);

  // The tiles of queries, where attention is causal from the diagonal on, for one head of the group after the other.
  const int first_query = a.pattern.causal ? first : 0, tiles = (a.T - first_query + others - 1) / others,
            all = tiles * a.group();
  int next_head = shared_head * a.group(), next_query = first_query;
  const auto load_queries = [&](int step) {
    const uint32_t to = v_tile + Keys::own_bytes + static_cast<uint32_t>(step % 2) * stage_bytes;
    const E* const q = static_cast<const E*>(a.qkv) + a.queries(b, next_head) + next_query * row;
    const E* const d_out = static_cast<const E*>(a.d_out) + a.output(b, next_head) + next_query * C;
    Tile::load<others, Keys::threads>(to, q, row, a.T - next_query, a.width);
    Tile::load<others, Keys::threads>(to + tile_bytes, d_out, C, a.T - next_query, a.width);
    // Queries behind the end are rows of zeros, so any finite statistics do.
    const int query = next_query + static_cast<int>(threadIdx.x) % others;
    const float* from = (threadIdx.x < others ? a.lse : a.delta) + a.statistics(b, next_head);
    if (threadIdx.x >= 2 * others) return;
    copy4_async(to + 2 * tile_bytes + threadIdx.x * 4, query < a.T ? from + query : from, query < a.T);
  };
  static_assert(group_threads >= 2 * others);
  load_queries(0);

  float dk[1][width / 8][4] = {}, dv[1][width / 8][4] = {};
  const float scale = a.scale * log2_e;
  for (int step = 0; step < all; ++step) {
    wait_for_copies();
    fence_tiles();
    __syncthreads();
    const int query = next_query;
    next_query += others;
    if (next_query >= a.T) next_query = first_query, ++next_head;
    if (step + 1 < all) load_queries(step + 1);
    const uint32_t stage = 2 * Keys::own_bytes + static_cast<uint32_t>(step % 2) * stage_bytes, q_tile = k_tile + stage,
                   do_tile = q_tile + tile_bytes;
    if (Keys::groups > 1 && group_first > a.last_key(query + others - 1)) continue;
    const float2* lse = reinterpret_cast<const float2*>(shared + stage + 2 * tile_bytes) + lane % 4;
    const float2* delta = lse + others / 2;

    // Rows are keys and columns queries, so that both gradients have the probabilities on the left.
    float p[1][others / 8][4], dp[1][others / 8][4];
    begin_products();
    row_products<E>(p, k_tile + group_tile, q_tile);
    row_products<E>(dp, v_tile + group_tile, do_tile);
    wait_for_products<1>(p[0]);
#pragma unroll
    for (int n = 0; n < others / 8; ++n) {
      const float2 both = lse[4 * n];
      const float shift[2] = {both.x * log2_e, both.y * log2_e};
#pragma unroll
      for (int i = 0; i < 4; ++i) p[0][n][i] = exp2_fast(p[0][n][i] * scale - shift[i % 2]);
    }
    if (warp_first + 15 > a.last_key(query)) {
      fill_where(p, 0, [&](int, int n, int r, int c) { return warp_first + r > a.last_key(query + 8 * n + c); });
    }
    uint32_t left[1][steps][4];
    pack<E>(left, p);
    accumulate<E>(dv, left, do_tile);
    wait_for_products<1>(dp[0]);
#pragma unroll
    for (int n = 0; n < others / 8; ++n) {
      const float2 both = delta[4 * n];
#pragma unroll
      for (int i = 0; i < 4; ++i) p[0][n][i] *= dp[0][n][i] - (i % 2 == 0 ? both.x : both.y);
    }
    uint32_t ds[1][steps][4];
    pack<E>(ds, p);
    accumulate<E>(dk, ds, q_tile);
    wait_for_products<0>(dk[0], dv[0]);
  }
  __syncthreads();  // nobody multiplies by the tiles that results go through

  const float ones[1][2] = {{1, 1}}, factor[1][2] = {{a.scale, a.scale}};
  const auto place = [&](int64_t begin) {
    return [&, to = static_cast<E*>(a.d_qkv) + begin](int r) {
      return warp_first + r < a.T ? to + (warp_first + r) * row : nullptr;
    };
  };
  store_rows<E, width>(dk, factor, shared, warp_row, a.width, place(a.keys(b, shared_head)));
  store_rows<E, width>(dv, ones, shared + Keys::own_bytes, warp_row, a.width, place(a.values(b, shared_head)));
}

void run(void (*kernel)(AttentionArgs), int threads, uint32_t tiles, const AttentionArgs& a) {
  const size_t bytes = tiles + tile_align;
  ZRT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  core::cuda::launch(kernel, static_cast<unsigned>(a.order.blocks()), static_cast<unsigned>(threads), bytes, a);
}

}  // namespace

bool takes_warpgroups(const AttentionShape& s) {
#ifdef ZRT_CUDA_WARPGROUPS
  if (padded_width(s) != width || s.dropout > 0 || s.pattern.sparse()) return false;
  int device = 0, major = 0, minor = 0;
  ZRT_CUDA(cudaGetDevice(&device));
  ZRT_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  ZRT_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return major == 9 && minor == 0;
#else
  return false;
#endif
}

void warpgroup_attention_forward(DType type, AttentionArgs a) {
  a.order = tile_order(int64_t{a.B} * a.heads, a.T, Forward::rows, int64_t{a.T} * a.width * 4 / a.group());
  run(type == DType::f16 ? forward_kernel<__half> : forward_kernel<__nv_bfloat16>, Forward::threads, forward_bytes, a);
}

void warpgroup_attention_backward(DType type, AttentionArgs a) {
  const int64_t tensor = int64_t{a.T} * a.width * 2;  // of one head
  a.order = tile_order(int64_t{a.B} * a.heads, a.T, Queries::rows, 2 * tensor / a.group());
  run(type == DType::f16 ? queries_kernel<__half> : queries_kernel<__nv_bfloat16>, Queries::threads, queries_bytes, a);
  a.order = tile_order(int64_t{a.B} * a.kv_heads, a.T, Keys::rows, 2 * tensor * a.group());
  run(type == DType::f16 ? keys_kernel<__half> : keys_kernel<__nv_bfloat16>, Keys::threads, keys_bytes, a);
}

}  // namespace zrt::models::cuda
