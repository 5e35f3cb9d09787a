// Compiled once per instruction set: see cmake/zrt_isa.cmake.
//
// The order of operations for one element; every line is one or more IEEE fp32 operations, evaluated left to right,
// none contracted:
//   g = grad · grad_scale
//   c = beta1 · m + one_minus_beta1 · g
//   w = keep · w − lr · sign(c), where sign(0) = 0
//   m = beta2 · m + one_minus_beta2 · g
#include "optimizer/lion_kernels.h"

#include "optimizer/update_kernel.h"

namespace zrt::optimizer {
namespace {

template <class Grad, class Weight>
void lion(const LionScalars& scalars, int64_t n, float* __restrict master, float* __restrict exp_avg,
          const void* __restrict grad_data, void* __restrict weight_data) {
  const LionScalars s = scalars;
  const Grad* __restrict grad = static_cast<const Grad*>(grad_data);
  [[maybe_unused]] Weight* __restrict weight = static_cast<Weight*>(weight_data);
  for (int64_t i = 0; i < n; ++i) {
    const float g = core::widen(grad[i]) * s.grad_scale;
    const float m = exp_avg[i];
    const float c = s.beta1 * m + s.one_minus_beta1 * g;
    const float step = c > 0 ? s.lr : c < 0 ? -s.lr : 0.0f;
    const float w = s.keep * master[i] - step;
    exp_avg[i] = s.beta2 * m + s.one_minus_beta2 * g;
    master[i] = w;
    if constexpr (copies<Weight>) core::narrow(w, weight[i]);
  }
}

#define ZRT_LION_ROW(grad) \
  { lion<grad, float>, lion<grad, bf16>, lion<grad, f16>, lion<grad, None> }

}  // namespace

extern const LionKernels ZRT_JOIN(lion_kernels_, ZRT_ISA);
const LionKernels ZRT_JOIN(lion_kernels_, ZRT_ISA) = {{ZRT_LION_ROW(float), ZRT_LION_ROW(bf16), ZRT_LION_ROW(f16)}};

}  // namespace zrt::optimizer
