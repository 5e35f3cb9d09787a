#include "models/kernels/matrix.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"

namespace zrt::models::cpu {
namespace {

constexpr int64_t piece_grain = 1 << 14;  // elements of a thread's piece at least

}  // namespace

void inverse_root_of_trace(const float* x, int64_t n, float least, float* scale) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i * n + i]);
  *scale = 1 / std::max(static_cast<float>(std::sqrt(sum)), least);
}

void scale_by(const float* x, const float* scale, int power, float* y, int64_t n) {
  const float factor = power == 2 ? *scale * *scale : *scale;
  core::parallel_for(n, piece_grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = factor * x[i];
  });
}

void scale_and_shift(const float* x, float scale, float shift, float* y, int64_t n) {
  core::parallel_for(n, std::max<int64_t>(1, piece_grain / n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * n;
      for (int64_t i = first; i < first + n; ++i) y[i] = scale * x[i];
      y[first + row] = y[first + row] + shift;
    }
  });
}

}  // namespace zrt::models::cpu
