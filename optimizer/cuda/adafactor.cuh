// Adafactor's view of one parameter in kernels.
#pragma once
#include <cuda_runtime.h>

#include "core/kernel_convert.h"
#include "optimizer/adafactor_part.h"

namespace zrt::optimizer::cuda {
namespace {

// Elements [from, to) of a parameter of batch × rows × cols; the gradient's array starts with element `from`.
struct Matrix {
  int64_t batch, rows, cols, from, to;
  const void* grad;
};

inline Matrix make_matrix(const UnitPart& part, const AdafactorPlace& place, const AdafactorRange& range) {
  const int64_t first = place.param->offset + range.from - part.begin;
  return {place.batch,
          place.rows,
          place.cols,
          range.from,
          range.to,
          static_cast<const std::byte*>(part.grad) + static_cast<size_t>(first) * core::dtype_size(part.grad_type)};
}

// Divisions of 64-bit numbers take several times as long as those of 32-bit ones.
__device__ inline int64_t divide(int64_t x, int64_t by) {
  if (((x | by) >> 32) == 0) return static_cast<uint32_t>(x) / static_cast<uint32_t>(by);
  return x / by;
}

struct Factors {
  const float* rows;  // null where there is one row
  const float* columns;
};

inline Factors factors_of(const UnitPart& part, const AdafactorPlace& place) {
  const float* factors = adafactor_work(part).factors;
  return {place.factored ? factors + place.row_factors : nullptr, factors + place.column_factors};
}

// row_factor · column_factor · (grad · grad_scale) of one element.
template <class Grad>
__device__ inline float direction_of(const Matrix& m, const Factors& factors, float grad_scale, int64_t element) {
  float row_factor = 1.0f;
  int64_t column = element;
  if (factors.rows) {
    const int64_t row = divide(element, m.cols);
    row_factor = factors.rows[row];
    column = element - row * m.cols;
    if (m.batch > 1) column += divide(row, m.rows) * m.cols;
  }
  const float grad = core::widen(static_cast<const Grad*>(m.grad)[element - m.from]);
  return row_factor * factors.columns[column] * (grad * grad_scale);
}

// Calls launch(T{}) for the type of a gradient.
template <class Launch>
void for_type(core::DType type, const Launch& launch) {
  if (type == core::DType::f32) return launch(float{});
  if (type == core::DType::bf16) return launch(core::bf16{});
  launch(core::f16{});
}

}  // namespace
}  // namespace zrt::optimizer::cuda
