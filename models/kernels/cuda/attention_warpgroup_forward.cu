// Does what attention_forward.cu does, a block with 64 queries of a head.
#include "models/kernels/cuda/attention_softmax.cuh"
#include "models/kernels/cuda/attention_warpgroup.cuh"

namespace zrt::models::cuda::warpgroup {
namespace {

template <int halves>
constexpr uint32_t forward_bytes = 5 * GroupTile<halves>::bytes;

// Registers are limited so that a multiprocessor takes as many blocks as its shared memory holds.
template <class E, int halves, bool documents>
__global__ void __launch_bounds__(group_threads, halves == 1 ? (documents ? 4 : 5) : 2)
    forward_kernel(const AttentionArgs a) {
  using Tile = GroupTile<halves>;
  constexpr uint32_t tile_bytes = Tile::bytes;
  std::byte* const shared = shared_tiles();
  const uint32_t q_tile = shared_address(shared), kv_tiles = q_tile + tile_bytes;
  const TileOrder::Item item = a.order.at(static_cast<int>(blockIdx.x));
  const int b = item.head / a.heads, head = item.head % a.heads, shared_head = head / a.group();
  const int first = (a.order.tiles - 1 - item.rank) * group_rows;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp_row = static_cast<int>(threadIdx.x) / 32 * 16,
            warp_first = first + warp_row;
  const int64_t row = a.row();
  const E* const k = static_cast<const E*>(a.qkv) + a.keys(b, shared_head);
  const E* const v = static_cast<const E*>(a.qkv) + a.values(b, shared_head);
  const auto tiles_of = [&](int tile) { return kv_tiles + static_cast<uint32_t>(tile % 2) * 2 * tile_bytes; };
  const auto load_keys = [&](int tile) {
    const int begin = tile * others;
    Tile::load(tiles_of(tile), k + begin * row, row, a.T - begin, a.width);
    Tile::load(tiles_of(tile) + tile_bytes, v + begin * row, row, a.T - begin, a.width);
  };
  Tile::load(q_tile, static_cast<const E*>(a.qkv) + a.queries(b, head) + first * row, row, a.T - first, a.width);
  const int begin_tile = documents ? a.document_start(b, first) / others : 0;
  load_keys(begin_tile);

  float out[1][Tile::chunks][4] = {};
  OnlineSoftmax<1> softmax;
  const float scale = a.scale * log2_e;
  const int tiles = a.last_key(min(first + group_rows, a.T) - 1) / others + 1;
  for (int tile = begin_tile; tile < tiles; ++tile) {
    wait_for_copies();
    fence_tiles();
    __syncthreads();  // the tile has come, and nobody reads the one before any more
    if (tile + 1 < tiles) load_keys(tile + 1);
    const int key = tile * others;
    const uint32_t k_tile = tiles_of(tile), v_tile = k_tile + tile_bytes;

    float s[1][others / 8][4];
    begin_products();
    row_products<E, halves>(s, q_tile, k_tile);
    wait_for_products<0>(s[0]);
    if (key + others - 1 > a.last_key(warp_first) || (documents && key < a.document_start(b, warp_first + 15))) {
      // They are loaded here, and not in front of the loop, for want of registers.
      const int start = documents ? a.document_start(b, warp_first + lane / 4) : 0,
                later = documents ? a.document_start(b, warp_first + lane / 4 + 8) : 0;
      fill_where(s, -INFINITY, [&](int, int n, int r, int c) {
        const int at = key + 8 * n + c;
        return at > a.last_key(warp_first + r) || (documents && at < (r == lane / 4 ? start : later));
      });
    }
    float shrink[1][2];
    softmax.step<documents>(s, shrink, scale);
    // Once the largest scores have been seen nothing shrinks.
    if (__ballot_sync(0xffffffffu, shrink[0][0] != 1 || shrink[0][1] != 1) != 0) softmax.apply(shrink, out);
    uint32_t p[1][steps][4];
    pack<E>(p, s);
    accumulate<E, halves>(out, p, v_tile);
    wait_for_products<0>(out[0]);
  }
  __syncthreads();  // nobody multiplies by the tile that results go through

  float factor[1][2];
  softmax.finish(factor, a.scale, [&](int r, float lse) {
    const int query = warp_first + r;
    if (a.lse != nullptr && query < a.T) a.lse[a.statistics(b, head) + query] = lse;
  });
  E* const to = static_cast<E*>(a.out) + a.output(b, head) + warp_first * a.C();
  store_rows<E, Tile>(out, factor, shared, warp_row, a.width,
                      [&](int r) { return r < a.T - warp_first ? to + r * a.C() : nullptr; });
}

template <class E, bool documents>
void forward(const AttentionArgs& a) {
  a.width <= half_width ? run(forward_kernel<E, 1, documents>, forward_bytes<1>, a)
                        : run(forward_kernel<E, 2, documents>, forward_bytes<2>, a);
}
template <class E>
void forward(const AttentionArgs& a) {
  a.positions == nullptr ? forward<E, false>(a) : forward<E, true>(a);
}

}  // namespace

void forward(DType type, AttentionArgs a) {
  a.order = tile_order(int64_t{a.B} * a.heads, a.T, group_rows, int64_t{a.T} * a.width * 4 / a.group());
  type == DType::f16 ? forward<__half>(a) : forward<__nv_bfloat16>(a);
}

bool takes(const AttentionShape& s) {
  constexpr bool built = ZRT_CUDA_WARPGROUPS;  // for a chip that has them
  const int width = padded_width(s);
  return built && (width == half_width || width == 2 * half_width) && s.dropout == 0 && !s.pattern.sparse() &&
         core::cuda::compute_capability() == 90;
}

}  // namespace zrt::models::cuda::warpgroup
