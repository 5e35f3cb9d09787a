// The loops of Adafactor: one table per instruction set, all with the same bits. All elements of a call lie in one row.
#pragma once
#include <cstdint>

#include "core/isa.h"
#include "optimizer/binned_sum.h"

namespace zrt::optimizer {

// The numbers of one parameter and step, each rounded to fp32 once.
struct AdafactorScalars {
  float clip;  // divides the update
  float lr;
  float beta1, one_minus_beta1;
  float decay;  // lr · weight_decay
};

struct AdafactorKernels {
  // Adds the squares of grad · grad_scale to the row's three sums and to the columns' (planes of `plane` doubles); by
  // gradient: fp32, bf16, fp16.
  void (*squares[3])(const void* grad, int64_t n, float grad_scale, const Bins& bins, double* row, double* columns,
                     int64_t plane);
  // out = (row_factor · column_factors) · (grad · grad_scale)
  void (*direction[3])(const void* grad, int64_t n, float grad_scale, float row_factor, const float* column_factors,
                       float* out);
  // Takes the direction; exp_avg may be null. By weight copy: fp32, bf16, fp16, none.
  void (*apply[4])(const AdafactorScalars&, int64_t n, const float* direction, float* master, float* exp_avg,
                   void* weight);
};

extern const AdafactorKernels adafactor_kernels_v3, adafactor_kernels_v4;
const AdafactorKernels& adafactor_kernels(core::Isa isa);

}  // namespace zrt::optimizer
