// Adafactor's statistics and factors from all ranks' sums: small, and in the host's order of operations.
#include "core/cuda/launch.cuh"
#include "optimizer/backend.h"
#include "optimizer/cuda/adafactor.cuh"

namespace zrt::optimizer::cuda {
namespace {

constexpr int threads = 512;

// What all ranks share, from one parameter's first number on.
struct Shares {
  const ExactSum* squares;
  const double* sums;
  uint64_t stride;  // bytes between ranks
  int ranks;
};

__global__ void scale_kernel(AdafactorParams params, uint32_t round, const Decision* decision, Shares shares,
                             int64_t elements, AdafactorScale* scale) {
  if (decision->skip != 0) return;
  ExactSum squares;
  for (int r = 0; r < shares.ranks; ++r) {
    squares.add(*reinterpret_cast<const ExactSum*>(reinterpret_cast<const std::byte*>(shares.squares) +
                                                   static_cast<uint64_t>(r) * shares.stride));
  }
  fold_scale(params, round, *decision, squares, elements, *scale);
}

// One block per matrix of the batch. The mean adds rows one after the other, as the host does; the block lays them out
// in shared memory, where the one thread that adds finds them soon enough.
__global__ void __launch_bounds__(threads)
    row_kernel(AdafactorParams params, const Decision* decision, Shares shares, int64_t row_sums, int64_t row_count,
               int64_t cols, float* statistics, float* factors) {
  if (decision->skip != 0) return;
  __shared__ double tile[threads];
  __shared__ double total;
  const int64_t first = int64_t{blockIdx.x} * row_count;
  double sum = 0;
  for (int64_t at = 0; at < row_count; at += threads) {
    const int64_t row = at + threadIdx.x;
    if (row < row_count) {
      const double squares =
          fold_bins(shares.sums + row_sums + (first + row) * bin_count, 1, shares.stride, shares.ranks);
      const float statistic = advance_statistic(params, *decision, statistics[first + row], squares, cols);
      statistics[first + row] = statistic;
      tile[threadIdx.x] = static_cast<double>(statistic);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      const int count = row_count - at < threads ? static_cast<int>(row_count - at) : threads;
#pragma unroll 8
      for (int i = 0; i < count; ++i) sum = sum + tile[i];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) total = sum;
  __syncthreads();
  const double mean = total / static_cast<double>(row_count);
  for (int64_t row = threadIdx.x; row < row_count; row += threads) {
    factors[first + row] = row_factor(statistics[first + row], mean);
  }
}

__global__ void __launch_bounds__(threads)
    column_kernel(AdafactorParams params, const Decision* decision, Shares shares, int64_t column_sums,
                  int64_t column_count, int64_t terms, float* statistics, float* factors) {
  if (decision->skip != 0) return;
  const int64_t column = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (column >= column_count) return;
  const double squares = fold_bins(shares.sums + column_sums + column, column_count, shares.stride, shares.ranks);
  const float statistic = advance_statistic(params, *decision, statistics[column], squares, terms);
  statistics[column] = statistic;
  factors[column] = column_factor(statistic);
}

void fold_statistics(const AdafactorParams& params, const AdafactorPlace& place, const Decision& decision,
                     const UnitPart& part, const Shares& shares) {
  const AdafactorStatistics statistics = adafactor_statistics(params, place, part);
  float* factors = adafactor_work(part).factors;
  if (place.factored) {
    core::cuda::launch(row_kernel, static_cast<unsigned>(place.batch), threads, 0, params, &decision, shares,
                       place.row_sums, place.rows, place.cols, statistics.rows, factors + place.row_factors);
  }
  const auto blocks = static_cast<unsigned>((place.column_count() + threads - 1) / threads);
  core::cuda::launch(column_kernel, blocks, threads, 0, params, &decision, shares, place.column_sums,
                     place.column_count(), place.factored ? place.rows : 1, statistics.columns,
                     factors + place.column_factors);
}

}  // namespace

void adafactor_fold(const AdafactorParams& params, uint32_t round, const Decision& decision, const UnitPart& part,
                    const std::byte* shares, int ranks) {
  const AdafactorLayout layout = adafactor_layout(*part.unit);
  const uint64_t stride = adafactor_share_bytes(*part.unit, round);
  const auto* squares = reinterpret_cast<const ExactSum*>(shares);
  const auto* sums = reinterpret_cast<const double*>(shares + adafactor_sums_offset(*part.unit));
  AdafactorScale* scales = adafactor_work(part).scales;
  for (size_t p = 0; p < layout.places.size(); ++p) {
    const Shares of{squares + p, sums, stride, ranks};
    core::cuda::launch(scale_kernel, 1, 1, 0, params, round, &decision, of, layout.places[p].param->param->elements(),
                       scales + p);
    if (round == 0) fold_statistics(params, layout.places[p], decision, part, of);
  }
}

}  // namespace zrt::optimizer::cuda
