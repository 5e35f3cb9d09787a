// Gradients of an embedding. The rows are sorted by token and cut into tiles of 64 places. A warp adds up the rows of a
// tile in order: a token all of whose rows lie in one tile is then done, others leave one sum per tile, which are added
// in the order of the tiles. So a token of thousands of rows is spread over the GPU like any other rows. Rows with
// tokens of other ranks keep their places, so that sums have the same bits however the vocabulary is cut.
#include "core/cuda/launch.cuh"
#include "core/device.h"
#include "models/kernels/cuda/dropout.cuh"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/cuda/gradient.cuh"
#include "models/kernels/cuda/token_sort.h"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

constexpr int tile = 64, unrolled = 4;
constexpr int block_warps = 4;  // warps of a block take neighbouring columns of the same tile
constexpr int64_t warp_columns = 32 * group, block_columns = block_warps * warp_columns;

struct Space {
  TokenSort sort;
  float *heads,
      *tails;  // (tiles, C): sums of a tile's first token, which began before it, and of its last, if it goes on
};

Space space_in(BumpAllocator& layout, const EmbeddingShape& shape) {
  const int64_t rows = shape.rows(), tiles = (rows + tile - 1) / tile;
  const uint64_t bytes = static_cast<uint64_t>(tiles * shape.C) * sizeof(float);
  const TokenSort sort = token_sort_in(layout, rows, shape.V);
  return {sort, layout.take<float>(bytes), layout.take<float>(bytes)};
}

template <class T>
struct Args {
  const int32_t *tokens, *order, *starts;
  const T* d;
  int64_t rows, first_row, places, C, V, first_token;  // places: T of the shape
  Dropout dropout;
  uint64_t first;
  GradTarget dwte, dwpe;
  float *heads, *tails;
};

// sum += a row's group at column c, with the dropout of the forward pass.
template <class T>
__device__ void add_row(const Args<T>& args, int64_t row, int64_t c, const Raw<T>& raw, float (&sum)[group]) {
  float v[group];
  unpack<T>(raw, v);
  if (args.dropout.probability != 0) {
    float mask[group];
    dropout_mask(args.dropout, args.first + static_cast<uint64_t>(row * args.C + c), mask);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] *= mask[i];
  }
#pragma unroll
  for (int i = 0; i < group; ++i) sum[i] += v[i];
}

__device__ inline int64_t own_column() {
  return static_cast<int64_t>(blockIdx.y) * block_columns + threadIdx.y * warp_columns + threadIdx.x * group;
}

template <class T>
__global__ void __launch_bounds__(32 * block_warps) sum_tiles(Args<T> args) {
  __shared__ int32_t rows[tile], tokens[tile];
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * tile, C = args.C, c = own_column(), left = C - c;
  // Places `first` … `count` of the tile are of rows with tokens of the table.
  const int64_t skipped = args.starts[0] - begin, rest = args.starts[args.V] - begin;
  if (skipped >= tile || rest <= 0) return;
  const int first = static_cast<int>(skipped > 0 ? skipped : 0), count = static_cast<int>(rest < tile ? rest : tile);
  if (first >= count) return;
  const int thread = threadIdx.y * 32 + threadIdx.x;
  if (thread >= first && thread < count) {
    rows[thread] = args.order[begin + thread];
    tokens[thread] = static_cast<int32_t>(args.tokens[rows[thread]] - args.first_token);
  }
  __syncthreads();
  if (left <= 0) return;
  float sum[group] = {};
  bool began_before = args.starts[tokens[first]] < begin;  // the token at hand
  for (int at = first; at < count; at += unrolled) {
    Raw<T> raw[unrolled];
#pragma unroll
    for (int u = 0; u < unrolled; ++u) {
      if (at + u < count) raw[u] = load_raw(args.d + rows[at + u] * C + c, left);
    }
#pragma unroll
    for (int u = 0; u < unrolled; ++u) {
      const int i = at + u;
      if (i >= count) continue;
      add_row(args, rows[i], c, raw[u], sum);
      const bool last = i + 1 == count;
      if (!last && tokens[i + 1] == tokens[i]) continue;
      const bool goes_on = last && args.starts[tokens[i] + 1] > begin + count;
      const int64_t place = blockIdx.x * C + c;
      if (began_before) {
        save(args.heads + place, left, sum);
      } else if (goes_on) {
        save(args.tails + place, left, sum);
      } else {
        write_gradients(args.dwte, tokens[i] * C + c, left, sum);
      }
      began_before = false;
#pragma unroll
      for (int e = 0; e < group; ++e) sum[e] = 0;
    }
  }
}

// Tokens whose rows lie in several tiles, and those without rows.
template <class T>
__global__ void __launch_bounds__(32 * block_warps) finish_tokens(Args<T> args) {
  const int64_t v = blockIdx.x, C = args.C, c = own_column(), left = C - c;
  if (left <= 0) return;
  const int64_t begin = args.starts[v], end = args.starts[v + 1];
  float sum[group] = {};
  if (begin == end) {
    if (!args.dwte.accumulate) write_gradients(args.dwte, v * C + c, left, sum);
    return;
  }
  const int64_t first = begin / tile, last = (end - 1) / tile;
  if (first == last) return;
  load(args.tails + first * C + c, left, sum);
#pragma unroll 4
  for (int64_t t = first + 1; t <= last; ++t) {
    float part[group];
    load(args.heads + t * C + c, left, part);
#pragma unroll
    for (int i = 0; i < group; ++i) sum[i] += part[i];
  }
  write_gradients(args.dwte, v * C + c, left, sum);
}

template <class T>
__global__ void __launch_bounds__(32 * block_warps) sum_positions(Args<T> args) {
  const int64_t t = blockIdx.x, C = args.C, c = own_column(), left = C - c;
  if (left <= 0) return;
  float sum[group] = {};
  if (t >= args.places && args.dwpe.accumulate) return;
  if (t < args.places) {
    const int64_t at = (t - args.first_row % args.places + args.places) % args.places;
    for (int64_t row = at; row < args.rows; row += args.places * unrolled) {
      Raw<T> raw[unrolled];
#pragma unroll
      for (int u = 0; u < unrolled; ++u) {
        const int64_t r = row + u * args.places;
        if (r < args.rows) raw[u] = load_raw(args.d + r * C + c, left);
      }
#pragma unroll
      for (int u = 0; u < unrolled; ++u) {
        const int64_t r = row + u * args.places;
        if (r < args.rows) add_row(args, r, c, raw[u], sum);
      }
    }
  }
  write_gradients(args.dwpe, t * C + c, left, sum);
}

}  // namespace

uint64_t embed_backward_workspace(const EmbeddingShape& shape) {
  BumpAllocator layout;
  space_in(layout, shape);
  return layout.bytes();
}

void embed_backward(DType type, const EmbeddingShape& shape, const int32_t* tokens, const void* d_out,
                    const Dropout& dropout, uint64_t first, GradTarget dwte, GradTarget dwpe, void* workspace) {
  BumpAllocator layout(static_cast<std::byte*>(workspace));
  const Space space = space_in(layout, shape);
  const int64_t rows = shape.rows();
  const dim3 block(32, block_warps);
  const unsigned across = blocks_for(shape.C, block_columns);
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Args<T> args{tokens,
                       space.sort.order,
                       space.sort.starts,
                       static_cast<const T*>(d_out),
                       rows,
                       shape.first_row(),
                       shape.T,
                       shape.C,
                       shape.V,
                       shape.first_token,
                       dropout,
                       first,
                       dwte,
                       dwpe,
                       space.heads,
                       space.tails};
    if (dwte.data != nullptr) {
      // A rank that shares rows with others may have none of its own.
      if (rows == 0) core::fill_bytes(space.sort.starts, 0, static_cast<uint64_t>(shape.V + 1) * sizeof(int32_t));
      if (rows > 0) {
        sort_by_token(tokens, rows, shape.first_token, shape.V, space.sort);
        core::cuda::launch(sum_tiles<T>, dim3(blocks_for(rows, tile), across), block, 0, args);
      }
      core::cuda::launch(finish_tokens<T>, dim3(static_cast<unsigned>(shape.V), across), block, 0, args);
    }
    if (dwpe.data == nullptr) return;
    const auto places = static_cast<unsigned>(shape.positions);
    core::cuda::launch(sum_positions<T>, dim3(places, across), block, 0, args);
  });
}

}  // namespace zrt::models::cuda
