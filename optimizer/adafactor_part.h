// Says where Adafactor's numbers lie for a part of a unit, and has its arithmetic per parameter, row and column.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "optimizer/adafactor_kernels.h"
#include "optimizer/adafactor_layout.h"
#include "optimizer/exact_sum.h"
#include "optimizer/optimizer.h"

namespace zrt::optimizer {

// One parameter's numbers, in front of the factors in the work buffer.
struct AdafactorScale {
  double lr, clip;
};
struct AdafactorWork {
  AdafactorScale* scales;
  float* factors;
};
inline AdafactorWork adafactor_work(const UnitPart& part) {
  auto* scales = reinterpret_cast<AdafactorScale*>(part.work);
  return {scales, reinterpret_cast<float*>(scales + part.unit->params.size())};
}

// A rank shares one ExactSum per parameter, and in round 0 the sums behind them.
inline uint64_t adafactor_sums_offset(const Unit& unit) {
  return unit.params.size() * sizeof(ExactSum);
}
inline uint64_t adafactor_share_bytes(const Unit& unit, uint32_t round) {
  const uint64_t sums = round == 0 ? static_cast<uint64_t>(adafactor_layout(unit).sums) : 0;
  return adafactor_sums_offset(unit) + sums * sizeof(double);
}

// Elements of a parameter that lie in the part. What lies behind a parameter up to a multiple of 64 is zero.
struct AdafactorRange {
  int64_t from, to;
  bool empty() const { return from >= to; }
  int64_t padded() const { return (to - from + unit_alignment - 1) / unit_alignment * unit_alignment; }
};
inline AdafactorRange adafactor_range(const UnitPart& part, const UnitParam& param) {
  return {std::max<int64_t>(part.begin - param.offset, 0),
          std::min(part.begin + part.count - param.offset, param.param->elements())};
}

// exp_avg_sq_row and exp_avg_sq_col of a parameter, or exp_avg_sq as `columns`.
struct AdafactorStatistics {
  float *rows, *columns;
};
inline AdafactorStatistics adafactor_statistics(const AdafactorParams& params, const AdafactorPlace& place,
                                                const UnitPart& part) {
  if (!place.factored) return {nullptr, part.states.back() + place.column_state};
  const size_t rows = params.momentum ? 1 : 0;
  return {part.states[rows] + place.row_state, part.states[rows + 1] + place.column_state};
}

ZRT_HD inline AdafactorScalars adafactor_scalars(const AdafactorParams& params, const AdafactorScale& scale) {
  const float beta1 = static_cast<float>(params.beta1);
  return {static_cast<float>(scale.clip), static_cast<float>(scale.lr), beta1, 1.0f - beta1,
          static_cast<float>(params.weight_decay * scale.lr)};
}

}  // namespace zrt::optimizer
