// Embedding of tokens, with or without positions: a warp per row.
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/dropout.cuh"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

constexpr int rows_per_block = 8, unrolled = 3;

template <class T>
struct Args {
  const int32_t *tokens, *positions;
  const T *wte, *wpe;
  T* out;
  int64_t rows, first_row, places, C, position, V, first_token;
  Dropout dropout;
  uint64_t first;
};

template <class T>
__global__ void __launch_bounds__(32 * rows_per_block) embed_rows(Args<T> args) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * rows_per_block + threadIdx.y, C = args.C;
  if (row >= args.rows) return;
  const int64_t v = args.tokens == nullptr ? row : args.tokens[row] - args.first_token;
  const bool here = args.tokens == nullptr || (v >= 0 && v < args.V);  // another rank's counts as zeros
  const T* token = args.wte + v * C;
  const int64_t t =
      args.positions != nullptr ? args.positions[row] : args.position + (args.first_row + row) % args.places;
  const T* place = args.wpe == nullptr ? nullptr : args.wpe + t * C;
  T* to = args.out + row * C;
  for (int64_t begin = int64_t{group} * threadIdx.x; begin < C; begin += int64_t{group} * 32 * unrolled) {
    Raw<T> x[unrolled], p[unrolled];
#pragma unroll
    for (int u = 0; u < unrolled; ++u) {
      const int64_t c = begin + int64_t{group} * 32 * u;
      if (c >= C) continue;
      x[u] = here ? load_raw(token + c, C - c) : Raw<T>{};
      if (place != nullptr) p[u] = load_raw(place + c, C - c);
    }
#pragma unroll
    for (int u = 0; u < unrolled; ++u) {
      const int64_t c = begin + int64_t{group} * 32 * u;
      if (c >= C) continue;
      float sum[group], plus[group], mask[group];
      unpack<T>(x[u], sum);
      if (place != nullptr) {
        unpack<T>(p[u], plus);
#pragma unroll
        for (int i = 0; i < group; ++i) sum[i] += plus[i];
        if (args.dropout.probability != 0) {
          dropout_mask(args.dropout, args.first + static_cast<uint64_t>(row * C + c), mask);
#pragma unroll
          for (int i = 0; i < group; ++i) sum[i] *= mask[i];
        }
      }
      save(to + c, C - c, sum);
    }
  }
}

}  // namespace

void embed(DType type, const EmbeddingShape& shape, const int32_t* tokens, const void* wte, const void* wpe,
           int64_t position, const Dropout& dropout, uint64_t first, void* out) {
  const int64_t rows = shape.rows();
  if (rows == 0) return;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Args<T> args{tokens,
                       shape.row_positions,
                       static_cast<const T*>(wte),
                       static_cast<const T*>(wpe),
                       static_cast<T*>(out),
                       rows,
                       shape.first_row(),
                       shape.T,
                       shape.C,
                       position,
                       shape.V,
                       shape.first_token,
                       dropout,
                       first};
    core::cuda::launch(embed_rows<T>, blocks_for(rows, rows_per_block), dim3(32, rows_per_block), 0, args);
  });
}

}  // namespace zrt::models::cuda
