// Brings together what all ranks share for Adafactor: sums over rows, columns and parameters, and what follows from
// them.
#pragma once
#include "optimizer/adafactor_part.h"

namespace zrt::optimizer {

// The shares of all ranks, from one parameter's first number on. Where tensor-parallel ranks have parts of a tensor,
// shares of the same data-parallel rank follow each other.
struct AdafactorShares {
  const ExactSum* squares;
  const double* sums;
  uint64_t stride;  // bytes between ranks
  int ranks;
  int tensor_ranks;  // 1: all ranks have the whole tensor
};
inline AdafactorShares adafactor_shares(const UnitPart& part, uint32_t round, const std::byte* shares, int ranks,
                                        size_t parameter) {
  const auto& slice = part.unit->params[parameter].param->slice;
  return {reinterpret_cast<const ExactSum*>(shares) + parameter,
          reinterpret_cast<const double*>(shares + adafactor_sums_offset(*part.unit)),
          adafactor_share_bytes(*part.unit, round), ranks, slice ? slice->ranks : 1};
}

ZRT_HD inline ExactSum fold_squares(const AdafactorShares& shares) {
  ExactSum squares;
  for (int r = 0; r < shares.ranks; ++r) {
    squares.add(*reinterpret_cast<const ExactSum*>(reinterpret_cast<const std::byte*>(shares.squares) +
                                                   static_cast<uint64_t>(r) * shares.stride));
  }
  return squares;
}

// The sum of a row or column over the ranks that have some of it, whose parts lie at `at`, `plane` apart.
ZRT_HD inline double fold_bins(const AdafactorShares& shares, const AdafactorAxis& axis, int rank, int64_t at,
                               int64_t plane) {
  double total[bin_count] = {};
  const int first = axis.cut ? rank : 0, step = axis.cut ? shares.tensor_ranks : 1;
  for (int r = first; r < shares.ranks; r += step) {
    const double* of_rank = shares.sums + static_cast<uint64_t>(r) * shares.stride / sizeof(double) + at;
    for (int k = 0; k < bin_count; ++k) total[k] += of_rank[k * plane];
  }
  return binned_value(total[0], total[1], total[2]);
}
ZRT_HD inline double fold_row(const AdafactorShares& shares, const AdafactorPlace& place, int64_t row) {
  const AdafactorHolder holder = find_holder(place.row, row);
  return fold_bins(shares, place.row, holder.rank, place.row_sums + holder.number * bin_count, 1);
}
ZRT_HD inline double fold_column(const AdafactorShares& shares, const AdafactorPlace& place, int64_t column) {
  const AdafactorHolder holder = find_holder(place.column, column);
  return fold_bins(shares, place.column, holder.rank, place.column_sums + holder.number, place.column.part);
}

// Leaves a rank the factor of a row or column, if its part has that.
ZRT_HD inline void keep_factor(float* factors, const AdafactorAxis& axis, int64_t of_whole, int tensor_rank,
                               float factor) {
  const AdafactorHolder holder = find_holder(axis, of_whole);
  if (!axis.cut || holder.rank == tensor_rank) factors[holder.number] = factor;
}

// Writes what a round leaves of a parameter. `squares`: those of its weights in round 0, of its update in round 1.
ZRT_HD inline void fold_scale(const AdafactorParams& params, uint32_t round, const Decision& decision,
                              const ExactSum& squares, int64_t elements, AdafactorScale& scale) {
  const double root_mean_square = std::sqrt(squares.value() / static_cast<double>(elements));
  if (round == 0) {
    const double least = params.eps2 < root_mean_square ? root_mean_square : params.eps2;
    scale.lr = decision.lr * params.lr_scale * (params.scale_parameter ? least : 1);
  } else {
    const double over = root_mean_square / params.clip_threshold;
    scale.clip = 1.0 < over ? over : 1.0;
  }
}

ZRT_HD inline float advance_statistic(const AdafactorParams& params, const Decision& decision, float statistic,
                                      double sum, int64_t terms) {
  const double mean = sum / static_cast<double>(terms) + params.eps1, beta2 = decision.statistics_beta;
  return static_cast<float>(beta2 * static_cast<double>(statistic) + (1 - beta2) * mean);
}

ZRT_HD inline float row_factor(float row, double mean) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(row) / mean));
}
ZRT_HD inline float column_factor(float column) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(column)));
}

}  // namespace zrt::optimizer
