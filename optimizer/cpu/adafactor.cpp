// Adafactor on the CPU: tiles and rows for threads, and the kernel table of this processor.
#include <algorithm>
#include <mutex>

#include "optimizer/adafactor_fold.h"
#include "optimizer/cpu/keep_weights.h"
#include "optimizer/norm_kernels.h"
#include "optimizer/pieces.h"
#include "optimizer/steps.h"

namespace zrt::optimizer {

const AdafactorKernels& adafactor_kernels(core::Isa isa) {
  return core::choose_isa(isa, adafactor_kernels_v3, adafactor_kernels_v4);
}

namespace cpu {
namespace {

constexpr int64_t tile = 1024;  // elements of a direction held at a time

// body(place index, place, first element, count) for tiles of at most `tile` elements from a multiple of 64.
template <class Body>
void for_tiles(const AdafactorLayout& layout, const UnitPart& part, const Body& body) {
  for (size_t p = 0; p < layout.places.size(); ++p) {
    const AdafactorRange range = adafactor_range(part, *layout.places[p].param);
    if (range.empty()) continue;
    core::parallel_for((range.to - range.from + tile - 1) / tile, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t first = range.from + t * tile;
        body(p, layout.places[p], first, std::min(tile, range.to - first));
      }
    });
  }
}

void sum_squares(const AdafactorParams& params, const AdafactorLayout& layout, const Decision& decision,
                 const UnitPart& part, ExactSum* weights, double* sums) {
  // A scaled gradient rounds to fp32, so the bound has room for more than the sum.
  const Bins bins = make_bins(4 * decision.grad_squares);
  const auto kernel = adafactor_kernels(core::best_isa()).squares[grad_index(part)];
  for (size_t p = 0; p < layout.places.size(); ++p) {
    const AdafactorPlace& place = layout.places[p];
    const AdafactorRange range = adafactor_range(part, *place.param);
    if (range.empty()) continue;
    const int64_t base = place.param->offset - part.begin;
    for_rows(place, range.from, range.to, [&](int64_t row, int64_t column, int64_t count, int64_t element) {
      double unused[bin_count] = {};
      double* rows = place.factored ? sums + place.row_sums + row * bin_count : unused;
      kernel(grad_at(part, base + element), count, decision.grad_scale, bins, rows, sums + place.column_sums + column,
             place.column.part);
    });
    if (params.scale_parameter) {
      cpu::add_squares(weights[p], range.padded(), part.master + base + range.from, core::DType::f32);
    }
  }
}

void make_direction(const AdafactorPlace& place, const Decision& decision, const UnitPart& part, const float* factors,
                    int64_t first, int64_t count, float* out) {
  const auto kernel = adafactor_kernels(core::best_isa()).direction[grad_index(part)];
  for_rows(place, first, first + count, [&](int64_t row, int64_t column, int64_t n, int64_t element) {
    kernel(grad_at(part, place.param->offset + element - part.begin), n, decision.grad_scale,
           place.factored ? factors[place.row_factors + row] : 1.0f, factors + place.column_factors + column,
           out + element - first);
  });
}

void sum_direction(const AdafactorLayout& layout, const Decision& decision, const UnitPart& part, ExactSum* totals) {
  const float* factors = adafactor_work(part).factors;
  const auto chunk_squares = norm_kernels(core::best_isa()).chunk_squares[static_cast<size_t>(core::DType::f32)];
  std::mutex mutex;  // the order does not matter: the sum is exact
  for_tiles(layout, part, [&](size_t p, const AdafactorPlace& place, int64_t first, int64_t count) {
    float direction[tile];
    make_direction(place, decision, part, factors, first, count, direction);
    const int64_t chunks = (count + unit_alignment - 1) / unit_alignment;
    std::fill(direction + count, direction + chunks * unit_alignment, 0.0f);
    double squares[tile / unit_alignment];
    chunk_squares(direction, chunks, squares);
    ExactSum sum;
    for (int64_t c = 0; c < chunks; ++c) sum.add(squares[c]);
    const std::lock_guard lock(mutex);
    totals[p].add(sum);
  });
}

// New statistics from all ranks' sums, then the factors: 1 / sqrt(row / mean(rows)) and 1 / sqrt(column).
void fold_statistics(const AdafactorParams& params, const AdafactorPlace& place, const Decision& decision,
                     const UnitPart& part, const AdafactorShares& shares) {
  const auto [rows, columns] = adafactor_statistics(params, place, part);
  float* const factors = adafactor_work(part).factors;
  if (place.factored) {
    for (int64_t i = 0; i < place.row.whole; ++i) {
      rows[i] = advance_statistic(params, decision, rows[i], fold_row(shares, place, i), place.whole_cols);
    }
    for (int64_t first = 0; first < place.row.whole; first += place.whole_rows) {
      double sum = 0;
      for (int64_t i = first; i < first + place.whole_rows; ++i) sum += static_cast<double>(rows[i]);
      const double mean = sum / static_cast<double>(place.whole_rows);
      for (int64_t i = first; i < first + place.whole_rows; ++i) {
        keep_factor(factors + place.row_factors, place.row, i, part.tensor_rank, row_factor(rows[i], mean));
      }
    }
  }
  for (int64_t i = 0; i < place.column.whole; ++i) {
    columns[i] = advance_statistic(params, decision, columns[i], fold_column(shares, place, i), place.whole_rows);
    keep_factor(factors + place.column_factors, place.column, i, part.tensor_rank, column_factor(columns[i]));
  }
}

}  // namespace

void adafactor_sum(const AdafactorParams& params, uint32_t round, const Decision& decision, const UnitPart& shard,
                   std::byte* share) {
  if (decision.skip) return;
  const AdafactorLayout layout = adafactor_layout(*shard.unit);
  auto* totals = reinterpret_cast<ExactSum*>(share);  // one per parameter
  if (round == 0) {
    auto* sums = reinterpret_cast<double*>(share + adafactor_sums_offset(*shard.unit));
    sum_squares(params, layout, decision, shard, totals, sums);
  } else {
    sum_direction(layout, decision, shard, totals);
  }
}

void adafactor_fold(const AdafactorParams& params, uint32_t round, const Decision& decision, const UnitPart& part,
                    const std::byte* shares, int ranks) {
  if (decision.skip) return;
  const AdafactorLayout layout = adafactor_layout(*part.unit);
  const AdafactorWork work = adafactor_work(part);
  for (size_t p = 0; p < layout.places.size(); ++p) {
    const models::Param& param = *layout.places[p].param->param;
    const AdafactorShares of = adafactor_shares(part, round, shares, ranks, p);
    fold_scale(params, round, decision, fold_squares(of), param.whole_elements(), work.scales[p]);
    if (round == 0) fold_statistics(params, layout.places[p], decision, part, of);
  }
}

void adafactor_step(const AdafactorParams& params, const Decision& decision, const UnitPart& part) {
  if (decision.skip) return keep_weights(part);
  const AdafactorLayout layout = adafactor_layout(*part.unit);
  const AdafactorWork work = adafactor_work(part);
  const auto apply = adafactor_kernels(core::best_isa()).apply[weight_index(part)];
  float* exp_avg = params.momentum ? part.states[0] : nullptr;
  for_tiles(layout, part, [&](size_t p, const AdafactorPlace& place, int64_t first, int64_t count) {
    float direction[tile];
    make_direction(place, decision, part, work.factors, first, count, direction);
    const int64_t at = place.param->offset + first - part.begin;
    apply(adafactor_scalars(params, work.scales[p]), count, direction, part.master + at,
          exp_avg ? exp_avg + at : nullptr, weight_at(part, at));
  });
}

}  // namespace cpu
}  // namespace zrt::optimizer
