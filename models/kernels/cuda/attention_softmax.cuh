// Online softmax of the rows of a warp's accumulators, M pieces of 16 rows (Dao, "FlashAttention-2", 2023).
#pragma once
#include "models/kernels/cuda/attention_args.cuh"

namespace zrt::models::cuda {

template <int M>
struct OnlineSoftmax {
  float top[M][2], sum[M][2] = {};  // of the scores before scaling; of the thread's columns

  __device__ OnlineSoftmax() {
#pragma unroll
    for (int m = 0; m < M; ++m) top[m][0] = top[m][1] = -INFINITY;
  }

  // The next scores become probabilities before division; what came of those before is to shrink by `shrink`. empties:
  // a row may have no finite score so far. `scale` is that of powers of two.
  template <bool empties, int N>
  __device__ void step(float (&s)[M][N][4], float (&shrink)[M][2], float scale) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float highest = top[m][half];
#pragma unroll
        for (int n = 0; n < N; ++n) highest = fmaxf(highest, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
        highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, 1));
        highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, 2));
        const float finite = empties && highest == -INFINITY ? 0 : highest;
        const float shift = finite * scale;
        shrink[m][half] = exp2_fast((top[m][half] - finite) * scale);
        top[m][half] = highest;
        float added = 0;
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) added += s[m][n][i] = exp2_fast(s[m][n][i] * scale - shift);
        }
        sum[m][half] = sum[m][half] * shrink[m][half] + added;
      }
    }
  }

  template <int W>
  __device__ static void apply(const float (&shrink)[M][2], float (&out)[M][W][4]) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < W; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[m][n][i] *= shrink[m][i / 2];
      }
    }
  }

  // Writes to `factor` what results are multiplied by, 1 / sum; calls save(row of the warp, log of the sum of
  // exponentials).
  template <class Save>
  __device__ void finish(float (&factor)[M][2], float scale, const Save& save) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float total = sum[m][half];
        total += __shfl_xor_sync(0xffffffffu, total, 1);
        total += __shfl_xor_sync(0xffffffffu, total, 2);
        factor[m][half] = 1 / total;
        if (lane % 4 == 0) save(16 * m + 8 * half + lane / 4, top[m][half] * scale + logf(total));
      }
    }
  }
};

}  // namespace zrt::models::cuda
