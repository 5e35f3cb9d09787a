// Attention of one row by one warp, in fp32 arithmetic: the lanes take a score each, then columns of the result.
#pragma once
#include "models/kernels/cuda/attention_args.cuh"

namespace zrt::models::cuda {

inline constexpr int row_columns = 256, row_parts = row_columns / 32;  // of a result; of it per lane

__device__ inline int lane_index() {
  return static_cast<int>(threadIdx.x) % 32;
}

template <class E>
__device__ inline float row_product(const E* x, const E* y, int width) {
  float sum = 0;
  for (int i = 0; i < width; ++i) sum = fmaf(read_element(x[i]), read_element(y[i]), sum);
  return sum;
}

// sum[…] += the factors of lanes 0 … count, times the rows of y.
template <class E>
__device__ inline void add_rows(float (&sum)[row_parts], float factor, const E* y, int64_t stride, int count,
                                int columns) {
  for (int i = 0; i < count; ++i) {
    const float f = __shfl_sync(0xffffffffu, factor, i);
#pragma unroll
    for (int part = 0; part < row_parts; ++part) {
      const int column = part * 32 + lane_index();
      if (column < columns) sum[part] = fmaf(f, read_element(y[i * stride + column]), sum[part]);
    }
  }
}

template <class E>
__device__ inline void write_row(const float (&sum)[row_parts], float factor, E* to, int columns) {
#pragma unroll
  for (int part = 0; part < row_parts; ++part) {
    const int column = part * 32 + lane_index();
    if (column < columns) to[column] = write_element<E>(sum[part] * factor);
  }
}

// Online softmax: `top` is the largest score so far, `sum` and `out` are relative to it.
struct SoftmaxRow {
  float top = -INFINITY, sum = 0;
  float out[row_parts] = {};

  // The lanes' next scores, at least one of them finite; the probabilities before division by `sum`.
  __device__ float step(float score) {
    float highest = score;
    for (int other = 16; other > 0; other /= 2) {
      highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, other));
    }
    highest = fmaxf(highest, top);
    const float shrink = expf(top - highest), p = expf(score - highest);
    float added = p;
    for (int other = 16; other > 0; other /= 2) added += __shfl_xor_sync(0xffffffffu, added, other);
    top = highest, sum = sum * shrink + added;
#pragma unroll
    for (float& x : out) x *= shrink;
    return p;
  }
};

}  // namespace zrt::models::cuda
