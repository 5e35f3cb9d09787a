#include "optimizer/adafactor_layout.h"

#include <fmt/format.h>

#include "core/error.h"
#include "optimizer/binned_sum.h"

namespace zrt::optimizer {

AdafactorLayout adafactor_layout(const Unit& unit) {
  AdafactorLayout layout;
  for (const UnitParam& param : unit.params) {
    const std::vector<int64_t>& shape = param.param->shape;
    AdafactorPlace place;
    place.param = &param;
    place.factored = shape.size() >= 2;
    if (place.factored) {
      place.rows = shape[shape.size() - 2];
      place.cols = shape.back();
      place.batch = param.param->elements() / (place.rows * place.cols);
      if (place.rows > most_terms || place.cols > most_terms) {
        throw core::ConfigError(
            fmt::format("optimizer.type Adafactor: parameter {} is {} x {}; the longest legal side is {}. Use AdamW.",
                        param.param->name, place.rows, place.cols, most_terms));
      }
      place.row_state = layout.row_state;
      place.column_state = layout.column_state;
      layout.row_state += place.row_count();
      layout.column_state += place.column_count();
      place.row_sums = layout.sums;
      layout.sums += place.row_count() * bin_count;
      place.row_factors = layout.factors;
      layout.factors += place.row_count();
    } else {
      place.cols = param.param->elements();
      place.column_state = layout.vectors;
      layout.vectors += place.cols;
    }
    place.column_sums = layout.sums;
    layout.sums += place.column_count() * bin_count;
    place.column_factors = layout.factors;
    layout.factors += place.column_count();
    layout.places.push_back(place);
  }
  return layout;
}

}  // namespace zrt::optimizer
