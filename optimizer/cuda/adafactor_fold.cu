// Adafactor's statistics and factors from all ranks' sums: small, and in the host's order of operations.
#include "core/cuda/launch.cuh"
#include "optimizer/adafactor_fold.h"
#include "optimizer/steps.h"

namespace zrt::optimizer::cuda {
namespace {

constexpr int threads = 512;

__global__ void scale_kernel(AdafactorParams params, uint32_t round, const Decision* decision, AdafactorShares shares,
                             int64_t elements, AdafactorScale* scale) {
  if (decision->skip != 0) return;
  fold_scale(params, round, *decision, fold_squares(shares), elements, *scale);
}

// One block per matrix of the whole batch. The mean adds rows one after the other, as the host does; the block lays
// them out in shared memory, where the one thread that adds finds them soon enough.
__global__ void __launch_bounds__(threads)
    row_kernel(AdafactorParams params, const Decision* decision, AdafactorShares shares, AdafactorPlace place,
               int tensor_rank, float* statistics, float* factors) {
  if (decision->skip != 0) return;
  __shared__ double tile[threads];
  __shared__ double total;
  const int64_t rows = place.whole_rows, first = int64_t{blockIdx.x} * rows;
  double sum = 0;
  for (int64_t at = 0; at < rows; at += threads) {
    const int64_t row = at + threadIdx.x;
    if (row < rows) {
      const double squares = fold_row(shares, place, first + row);
      const float statistic = advance_statistic(params, *decision, statistics[first + row], squares, place.whole_cols);
      statistics[first + row] = statistic;
      tile[threadIdx.x] = static_cast<double>(statistic);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      const int count = rows - at < threads ? static_cast<int>(rows - at) : threads;
#pragma unroll 8
      for (int i = 0; i < count; ++i) sum = sum + tile[i];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) total = sum;
  __syncthreads();
  const double mean = total / static_cast<double>(rows);
  for (int64_t row = first + threadIdx.x; row < first + rows; row += threads) {
    keep_factor(factors, place.row, row, tensor_rank, row_factor(statistics[row], mean));
  }
}

__global__ void __launch_bounds__(threads)
    column_kernel(AdafactorParams params, const Decision* decision, AdafactorShares shares, AdafactorPlace place,
                  int tensor_rank, float* statistics, float* factors) {
  if (decision->skip != 0) return;
  const int64_t column = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (column >= place.column.whole) return;
  const double squares = fold_column(shares, place, column);
  const float statistic = advance_statistic(params, *decision, statistics[column], squares, place.whole_rows);
  statistics[column] = statistic;
  keep_factor(factors, place.column, column, tensor_rank, column_factor(statistic));
}

void fold_statistics(const AdafactorParams& params, const AdafactorPlace& place, const Decision& decision,
                     const UnitPart& part, const AdafactorShares& shares) {
  const AdafactorStatistics statistics = adafactor_statistics(params, place, part);
  float* factors = adafactor_work(part).factors;
  if (place.factored) {
    core::cuda::launch(row_kernel, static_cast<unsigned>(place.row.whole / place.whole_rows), threads, 0, params,
                       &decision, shares, place, part.tensor_rank, statistics.rows, factors + place.row_factors);
  }
  const auto blocks = static_cast<unsigned>((place.column.whole + threads - 1) / threads);
  core::cuda::launch(column_kernel, blocks, threads, 0, params, &decision, shares, place, part.tensor_rank,
                     statistics.columns, factors + place.column_factors);
}

}  // namespace

void adafactor_fold(const AdafactorParams& params, uint32_t round, const Decision& decision, const UnitPart& part,
                    const std::byte* shares, int ranks) {
  const AdafactorLayout layout = adafactor_layout(*part.unit);
  AdafactorScale* scales = adafactor_work(part).scales;
  for (size_t p = 0; p < layout.places.size(); ++p) {
    const models::Param& param = *layout.places[p].param->param;
    const AdafactorShares of = adafactor_shares(part, round, shares, ranks, p);
    core::cuda::launch(scale_kernel, 1, 1, 0, params, round, &decision, of, param.whole_elements(), scales + p);
    if (round == 0) fold_statistics(params, layout.places[p], decision, part, of);
  }
}

}  // namespace zrt::optimizer::cuda
