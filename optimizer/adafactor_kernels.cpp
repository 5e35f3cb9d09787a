// Compiled once per instruction set: see cmake/zrt_isa.cmake. fp32 operations are evaluated left to right, none
// contracted; sums of squares are exact (see binned_sum.h), so lanes may add in any order.
#include "optimizer/adafactor_kernels.h"

#include "optimizer/update_kernel.h"

namespace zrt::optimizer {
namespace {

constexpr int lanes = 8;

// One element: its three parts go to the column's sums and to a lane of the row's.
template <class Grad>
inline void add_square(Grad grad, float grad_scale, const double* at, double* column0, double* column1, double* column2,
                       double* row0, double* row1, double* row2) {
  const float g = core::widen(grad) * grad_scale;
  const double x = static_cast<double>(g) * static_cast<double>(g);  // exact
  const double part0 = (x + at[0]) - at[0], rest = x - part0;
  const double part1 = (rest + at[1]) - at[1];
  const double part2 = ((rest - part1) + at[2]) - at[2];
  *column0 = *column0 + part0, *row0 = *row0 + part0;
  *column1 = *column1 + part1, *row1 = *row1 + part1;
  *column2 = *column2 + part2, *row2 = *row2 + part2;
}

template <class Grad>
void squares(const void* __restrict grad_data, int64_t n, float grad_scale, const Bins& bins, double* __restrict row,
             double* __restrict columns, int64_t plane) {
  const Grad* __restrict grad = static_cast<const Grad*>(grad_data);
  const double at[bin_count] = {bins.at[0], bins.at[1], bins.at[2]};
  double* __restrict column0 = columns;
  double* __restrict column1 = columns + plane;
  double* __restrict column2 = columns + 2 * plane;
  double row0[lanes] = {}, row1[lanes] = {}, row2[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int l = 0; l < lanes; ++l) {
      add_square(grad[i + l], grad_scale, at, column0 + i + l, column1 + i + l, column2 + i + l, row0 + l, row1 + l,
                 row2 + l);
    }
  }
  for (; i < n; ++i) add_square(grad[i], grad_scale, at, column0 + i, column1 + i, column2 + i, row0, row1, row2);
  for (int l = 0; l < lanes; ++l) {
    row[0] = row[0] + row0[l];
    row[1] = row[1] + row1[l];
    row[2] = row[2] + row2[l];
  }
}

template <class Grad>
void direction(const void* __restrict grad_data, int64_t n, float grad_scale, float row_factor,
               const float* __restrict column_factors, float* __restrict out) {
  const Grad* __restrict grad = static_cast<const Grad*>(grad_data);
  for (int64_t i = 0; i < n; ++i) out[i] = row_factor * column_factors[i] * (core::widen(grad[i]) * grad_scale);
}

template <class Weight, bool momentum>
void apply_as(const AdafactorScalars& scalars, int64_t n, const float* __restrict direction_data,
              float* __restrict master, float* __restrict exp_avg, void* __restrict weight_data) {
  const AdafactorScalars s = scalars;
  [[maybe_unused]] Weight* __restrict weight = static_cast<Weight*>(weight_data);
  for (int64_t i = 0; i < n; ++i) {
    float u = direction_data[i] / s.clip * s.lr;
    if constexpr (momentum) {
      u = s.beta1 * exp_avg[i] + s.one_minus_beta1 * u;
      exp_avg[i] = u;
    }
    const float w = master[i] - s.decay * master[i] - u;
    master[i] = w;
    if constexpr (copies<Weight>) core::narrow(w, weight[i]);
  }
}

template <class Weight>
void apply(const AdafactorScalars& scalars, int64_t n, const float* direction_data, float* master, float* exp_avg,
           void* weight) {
  if (exp_avg) {
    apply_as<Weight, true>(scalars, n, direction_data, master, exp_avg, weight);
  } else {
    apply_as<Weight, false>(scalars, n, direction_data, master, exp_avg, weight);
  }
}

}  // namespace

extern const AdafactorKernels ZRT_JOIN(adafactor_kernels_, ZRT_ISA);
const AdafactorKernels ZRT_JOIN(adafactor_kernels_, ZRT_ISA) = {{squares<float>, squares<bf16>, squares<f16>},
                                                                {direction<float>, direction<bf16>, direction<f16>},
                                                                {apply<float>, apply<bf16>, apply<f16>, apply<None>}};

}  // namespace zrt::optimizer
