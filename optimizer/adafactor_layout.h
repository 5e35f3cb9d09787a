// Says where Adafactor's numbers of a unit lie: its states, what ranks share, and its work buffer.
#pragma once
#include <cstdint>
#include <vector>

#include "core/host_device.h"
#include "optimizer/unit.h"

namespace zrt::optimizer {

// The rows of a parameter, or its columns: those of the whole tensor, which statistics are of, and those of a rank's
// part, which sums and factors are of. Where the tensor's slices cut them, each `section` of the whole has `own` in the
// part of each tensor-parallel rank, of which the last ones may be padding; `inner` of them go together.
struct AdafactorAxis {
  int64_t whole = 1, part = 1;
  bool cut = false;  // else each rank has all of them
  int64_t section = 1, own = 1, inner = 1;
};
// Who has one of them: a tensor-parallel rank, and its number in that rank's part.
struct AdafactorHolder {
  int rank;
  int64_t number;
};
ZRT_HD inline AdafactorHolder find_holder(const AdafactorAxis& axis, int64_t of_whole) {
  if (!axis.cut) return {0, of_whole};
  const int64_t along = of_whole / axis.inner, at = along % axis.section;
  return {static_cast<int>(at / axis.own),
          (along / axis.section * axis.own + at % axis.own) * axis.inner + of_whole % axis.inner};
}

// A rank's part of one parameter as `batch` matrices of rows × cols. One with fewer than two dimensions is one row, has
// column sums only, and these are its elements' squares.
struct AdafactorPlace {
  const UnitParam* param = nullptr;
  bool factored = false;
  int64_t batch = 1, rows = 1, cols = 1;
  int64_t whole_rows = 1, whole_cols = 1;       // of a matrix of the whole tensor
  AdafactorAxis row, column;                    // through the batch
  int64_t row_state = 0;                        // into exp_avg_sq_row: row.whole values
  int64_t column_state = 0;                     // into exp_avg_sq_col, or exp_avg_sq: column.whole values
  int64_t row_factors = 0, column_factors = 0;  // floats of the work buffer
  int64_t row_sums = 0, column_sums = 0;        // doubles of a share: rows × 3, and 3 planes of columns
};

struct AdafactorLayout {
  std::vector<AdafactorPlace> places;                    // by parameter
  int64_t row_state = 0, column_state = 0, vectors = 0;  // elements of exp_avg_sq_row, exp_avg_sq_col, exp_avg_sq
  int64_t sums = 0;                                      // doubles of a share
  int64_t factors = 0;                                   // floats of the work buffer
};

// Throws core::ConfigError for a matrix with a side too long for exact sums.
AdafactorLayout adafactor_layout(const Unit& unit);

// Calls body(row, column, count, element) for the runs of one row in elements [from, to) of a parameter: `row` counts
// through the batch, `column` is the first one's index into the column sums, `element` its number in the parameter.
template <class Body>
void for_rows(const AdafactorPlace& place, int64_t from, int64_t to, const Body& body) {
  while (from < to) {
    const int64_t row = from / place.cols, column = from % place.cols;
    const int64_t count = place.cols - column < to - from ? place.cols - column : to - from;
    body(row, row / place.rows * place.cols + column, count, from);
    from += count;
  }
}

}  // namespace zrt::optimizer
