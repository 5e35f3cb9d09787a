#include "optimizer/adafactor_layout.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <span>

#include "core/error.h"
#include "optimizer/binned_sum.h"

namespace zrt::optimizer {
namespace {

int64_t product(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// Returns the axis of a parameter's dimensions without the one that is summed over; -1: none is.
AdafactorAxis axis_of(const models::Param& param, int64_t summed) {
  std::vector<int64_t> part = param.shape, whole = param.whole_shape();
  if (summed >= 0) part.erase(part.begin() + summed), whole.erase(whole.begin() + summed);
  AdafactorAxis axis{.whole = product(whole), .part = product(part)};
  if (!param.slice) return axis;
  const auto sliced = static_cast<int64_t>(param.slice->dimension);
  if (sliced == summed) return axis;
  axis.cut = true;
  axis.section = param.slice->extent / param.slice->sections;
  axis.own = param.shape[param.slice->dimension] / param.slice->sections;
  axis.inner =
      product(std::span(part).subspan(static_cast<size_t>(sliced > summed && summed >= 0 ? sliced : sliced + 1)));
  return axis;
}

}  // namespace

AdafactorLayout adafactor_layout(const Unit& unit) {
  AdafactorLayout layout;
  for (const UnitParam& param : unit.params) {
    const std::vector<int64_t>&shape = param.param->shape, whole = param.param->whole_shape();
    const auto dimensions = static_cast<int64_t>(shape.size());
    AdafactorPlace place;
    place.param = &param;
    place.factored = dimensions >= 2;
    place.column = axis_of(*param.param, place.factored ? dimensions - 2 : -1);
    if (place.factored) {
      place.row = axis_of(*param.param, dimensions - 1);
      place.rows = shape[shape.size() - 2], place.whole_rows = whole[shape.size() - 2];
      place.cols = shape.back(), place.whole_cols = whole.back();
      place.batch = param.param->elements() / (place.rows * place.cols);
      if (place.whole_rows > most_terms || place.whole_cols > most_terms) {
        throw core::ConfigError(
            fmt::format("optimizer.type Adafactor: parameter {} is {} x {}; the longest legal side is {}. Use AdamW.",
                        param.param->name, place.whole_rows, place.whole_cols, most_terms));
      }
      place.row_state = layout.row_state;
      place.column_state = layout.column_state;
      layout.row_state += place.row.whole;
      layout.column_state += place.column.whole;
      place.row_sums = layout.sums;
      layout.sums += place.row.part * bin_count;
      place.row_factors = layout.factors;
      layout.factors += place.row.part;
    } else {
      place.cols = param.param->elements(), place.whole_cols = param.param->whole_elements();
      place.column_state = layout.vectors;
      layout.vectors += place.column.whole;
    }
    place.column_sums = layout.sums;
    layout.sums += place.column.part * bin_count;
    place.column_factors = layout.factors;
    layout.factors += place.column.part;
    layout.places.push_back(place);
  }
  return layout;
}

}  // namespace zrt::optimizer
