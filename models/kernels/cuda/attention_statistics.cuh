// The statistics of each query that the gradients of attention need.
#pragma once
#include "models/kernels/cuda/attention_args.cuh"
#include "models/kernels/cuda/attention_mma.cuh"

namespace zrt::models::cuda {

// Finds, for a warp's rows, M pieces of 16 queries from `first` on: the logarithm to base 2 of the sum of exponentials,
// and delta, the row sums of out · d_out, which are also written for the kernel of the keys. d_out: rows `row` … of a
// tile. Four threads have a row, as in accumulators.
template <class E, class Tile, int M>
__device__ inline void row_statistics(float (&lse)[M][2], float (&delta)[M][2], const AttentionArgs& a, int b, int head,
                                      int first, const std::byte* d_out, int row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = 16 * m + 8 * half + lane / 4, query = first + r;
      float total = 0;
      if (query < a.T) {
        const E* out = static_cast<const E*>(a.out) + a.output(b, head) + query * a.C();
        for (int chunk = lane % 4; chunk * 8 < a.width; chunk += 4) {
          E x[8], d[8];
          const uint4 packed = *reinterpret_cast<const uint4*>(out + chunk * 8),
                      d_packed = *reinterpret_cast<const uint4*>(d_out + Tile::offset(row + r, chunk));
          memcpy(x, &packed, sizeof x);
          memcpy(d, &d_packed, sizeof d);
#pragma unroll
          for (int i = 0; i < 8; ++i) total += read_element(x[i]) * read_element(d[i]);
        }
      }
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      delta[m][half] = total;
      lse[m][half] = query < a.T ? a.lse[a.statistics(b, head) + query] * log2_e : 0;
      if (lane % 4 == 0 && query < a.T) a.delta[a.statistics(b, head) + query] = total;
    }
  }
}

}  // namespace zrt::models::cuda
