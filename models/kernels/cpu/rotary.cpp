#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "models/kernels/cpu/dispatch.h"
#include "models/kernels/kernels.h"

namespace zrt::models::cpu {

// Cosines and sines are made anew for every row, once for all its heads: a table of them would be another buffer to
// plan, and next to the row's matrix products they cost nothing that can be measured.
void rotary(DType type, const RotaryShape& shape, const double* frequencies, int64_t position, bool backward, void* x) {
  constexpr int64_t piece = 256;
  const int64_t half = shape.width / 2;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(shape.rows, 1, [&](int64_t begin, int64_t end) {
      float cosine[piece], sine[piece];
      for (int64_t row = begin; row < end; ++row) {
        const int64_t place = shape.positions != nullptr ? shape.positions[row] : position + row % shape.T;
        const auto turns = static_cast<double>(place) * (backward ? -1 : 1);
        T* vectors = static_cast<T*>(x) + row * shape.stride;
        for (int64_t at = 0; at < half; at += piece) {
          const int64_t n = std::min(piece, half - at);
          for (int64_t i = 0; i < n; ++i) {
            const double angle = turns * frequencies[at + i];
            cosine[i] = shape.scale * static_cast<float>(std::cos(angle));
            sine[i] = shape.scale * static_cast<float>(std::sin(angle));
          }
          for (int64_t head = 0; head < shape.heads; ++head) {
            typed_kernels<T>().rotate(vectors + head * shape.width + at, cosine, sine, n, half);
          }
        }
      }
    });
  });
}

}  // namespace zrt::models::cpu
