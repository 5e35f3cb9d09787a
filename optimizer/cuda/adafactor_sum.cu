// Adafactor's sums over a part. All of them are exact, so that blocks may add in any order.
#include "core/cuda/launch.cuh"
#include "optimizer/cuda/adafactor.cuh"
#include "optimizer/cuda/exact_sum.cuh"
#include "optimizer/steps.h"

namespace zrt::optimizer::cuda {
namespace {

constexpr int column_threads = 256, row_threads = 128;
constexpr int64_t rows_of_block = 64;

struct Parts {
  double sum[bin_count] = {};
  __device__ void add(const BinParts& parts) {
    for (int k = 0; k < bin_count; ++k) sum[k] = sum[k] + parts.part[k];
  }
};

// A scaled gradient rounds to fp32, so the bound has room for more than the sum.
__device__ inline Bins bins_of(const Decision& decision) {
  return make_bins(4 * decision.grad_squares);
}

template <class Grad>
__device__ inline BinParts square_parts(const Matrix& m, const Bins& bins, float grad_scale, int64_t element) {
  const float g = core::widen(static_cast<const Grad*>(m.grad)[element - m.from]) * grad_scale;
  return split_bins(bins, static_cast<double>(g) * static_cast<double>(g));
}

// A block adds up to 64 rows of 256 columns; blocks of a column add to the same sums. Parts are sums of exact parts,
// which no addition rounds: atomics give the same bits in any order.
template <class Grad>
__global__ void __launch_bounds__(column_threads)
    column_kernel(Matrix m, const Decision* decision, double* sums, int64_t tiles, int64_t steps) {
  if (decision->skip != 0) return;
  const int64_t block = blockIdx.x, tile = block % tiles, matrix = block / tiles / steps;
  const int64_t column = tile * column_threads + threadIdx.x;
  const int64_t first = block / tiles % steps * rows_of_block;
  const int64_t last = first + rows_of_block < m.rows ? first + rows_of_block : m.rows;
  const int64_t begin = (matrix * m.rows + first) * m.cols, end = (matrix * m.rows + last) * m.cols;
  if (column >= m.cols || end <= m.from || begin >= m.to) return;
  const Bins bins = bins_of(*decision);
  const float grad_scale = decision->grad_scale;
  Parts own;
  for (int64_t element = begin + column; element < end; element += m.cols) {
    if (element >= m.from && element < m.to) own.add(square_parts<Grad>(m, bins, grad_scale, element));
  }
  double* sum = sums + matrix * m.cols + column;
  for (int k = 0; k < bin_count; ++k) atomicAdd(sum + k * m.batch * m.cols, own.sum[k]);
}

// One block per row that has elements in the part.
template <class Grad>
__global__ void __launch_bounds__(row_threads)
    row_kernel(Matrix m, const Decision* decision, double* sums, int64_t first_row) {
  if (decision->skip != 0) return;
  const int64_t row = first_row + blockIdx.x;
  const int64_t begin = row * m.cols > m.from ? row * m.cols : m.from;
  const int64_t end = (row + 1) * m.cols < m.to ? (row + 1) * m.cols : m.to;
  const Bins bins = bins_of(*decision);
  const float grad_scale = decision->grad_scale;
  Parts own;
  for (int64_t element = begin + threadIdx.x; element < end; element += row_threads) {
    own.add(square_parts<Grad>(m, bins, grad_scale, element));
  }
  for (int k = 0; k < bin_count; ++k) {
    double& sum = own.sum[k];
    for (int distance = 16; distance > 0; distance /= 2) sum = sum + __shfl_down_sync(all_lanes, sum, distance);
    if (threadIdx.x % 32 == 0) atomicAdd(sums + row * bin_count + k, sum);
  }
}

// Squares of the direction, chunk by chunk as in the norm; what lies behind the parameter counts as zero.
template <class Grad>
__global__ void __launch_bounds__(sum_threads)
    direction_kernel(Matrix m, const Decision* decision, Factors factors, ExactSum* sum) {
  if (decision->skip != 0) return;
  const float grad_scale = decision->grad_scale;
  const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / chunk_lanes, lane = threadIdx.x % chunk_lanes;
  const int64_t chunks = (m.to - m.from + 63) / 64;
  constexpr int turns = chunk_lanes;  // each thread of a chunk adds the sum of one turn
  constexpr int64_t of_warp = warp_chunks * turns;
  ExactSum own;
  for (int64_t first = (int64_t{blockIdx.x} * sum_warps + warp) * of_warp; first < chunks;
       first += int64_t{gridDim.x} * sum_warps * of_warp) {
    double mine = 0;
    for (int turn = 0; turn < turns; ++turn) {
      const int64_t begin = m.from + (first + turn * warp_chunks + group) * 64 + lane;
      double total = 0;
      for (int row = 0; row < 64; row += chunk_lanes) {
        if (begin + row < m.to) total = add_square(total, direction_of<Grad>(m, factors, grad_scale, begin + row));
      }
      total = add_lanes(total);
      if (lane == turn) mine = total;
    }
    own.add(mine);
  }
  add_block(*sum, own);
}

void sum_squares(const Matrix& m, const AdafactorPlace& place, const Decision& decision, core::DType grad_type,
                 double* sums) {
  const int64_t tiles = (m.cols + column_threads - 1) / column_threads;
  const int64_t steps = (m.rows + rows_of_block - 1) / rows_of_block;
  const int64_t first_row = m.from / m.cols, last_row = (m.to - 1) / m.cols;
  for_type(grad_type, [&]<class Grad>(Grad) {
    core::cuda::launch(column_kernel<Grad>, static_cast<unsigned>(tiles * steps * m.batch), column_threads, 0, m,
                       &decision, sums + place.column_sums, tiles, steps);
    if (!place.factored) return;
    core::cuda::launch(row_kernel<Grad>, static_cast<unsigned>(last_row - first_row + 1), row_threads, 0, m, &decision,
                       sums + place.row_sums, first_row);
  });
}

void sum_direction(const Matrix& m, const Factors& factors, const Decision& decision, core::DType grad_type,
                   ExactSum* total) {
  const unsigned blocks = sum_blocks((m.to - m.from + 63) / 64);
  for_type(grad_type, [&]<class Grad>(Grad) {
    core::cuda::launch(direction_kernel<Grad>, blocks, sum_threads, 0, m, &decision, factors, total);
  });
}

}  // namespace

void adafactor_sum(const AdafactorParams& params, uint32_t round, const Decision& decision, const UnitPart& shard,
                   std::byte* share) {
  const AdafactorLayout layout = adafactor_layout(*shard.unit);
  auto* totals = reinterpret_cast<ExactSum*>(share);  // one per parameter
  auto* sums = reinterpret_cast<double*>(share + adafactor_sums_offset(*shard.unit));
  for (size_t p = 0; p < layout.places.size(); ++p) {
    const AdafactorPlace& place = layout.places[p];
    const AdafactorRange range = adafactor_range(shard, *place.param);
    if (range.empty()) continue;
    const Matrix m = make_matrix(shard, place, range);
    if (round == 1) {
      sum_direction(m, factors_of(shard, place), decision, shard.grad_type, totals + p);
      continue;
    }
    sum_squares(m, place, decision, shard.grad_type, sums);
    if (!params.scale_parameter) continue;
    // The sum is made on a skipped step, too: nobody reads it then.
    const float* weights = shard.master + place.param->offset + range.from - shard.begin;
    cuda::add_squares(totals[p], range.padded(), weights, core::DType::f32);
  }
}

}  // namespace zrt::optimizer::cuda
