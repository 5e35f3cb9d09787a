// Compiled once per instruction set: see cmake/zrt_isa.cmake.
//
// The order of operations for one element; every line is one or more IEEE fp32 operations, evaluated left to right,
// none contracted. Other back ends repeat exactly this:
//   g = grad · grad_scale
//   AdamW: w = w − decay · w          Adam: g = g + decay · w
//   m = beta1 · m + one_minus_beta1 · g
//   v = beta2 · v + one_minus_beta2 · (g · g)
//   w = w − (step_size · m) / (sqrt(v) / root_bc2 + eps)
#include "optimizer/adam_kernels.h"

#include "optimizer/update_kernel.h"

namespace zrt::optimizer {
namespace {

template <bool decoupled, class Grad, class Weight>
void adam(const AdamScalars& scalars, int64_t n, float* __restrict master, float* __restrict moment1,
          float* __restrict moment2, const void* __restrict grad_data, void* __restrict weight_data) {
  const AdamScalars s = scalars;
  const Grad* __restrict grad = static_cast<const Grad*>(grad_data);
  [[maybe_unused]] Weight* __restrict weight = static_cast<Weight*>(weight_data);
  for (int64_t i = 0; i < n; ++i) {
    float g = core::widen(grad[i]) * s.grad_scale;
    float w = master[i];
    if constexpr (decoupled) {
      w = w - s.decay * w;
    } else {
      g = g + s.decay * w;
    }
    const float m = s.beta1 * moment1[i] + s.one_minus_beta1 * g;
    const float v = s.beta2 * moment2[i] + s.one_minus_beta2 * (g * g);
    w = w - s.step_size * m / (__builtin_sqrtf(v) / s.root_bc2 + s.eps);
    moment1[i] = m;
    moment2[i] = v;
    master[i] = w;
    if constexpr (copies<Weight>) core::narrow(w, weight[i]);
  }
}

#define ZRT_ADAM_ROW(decoupled, grad) \
  { adam<decoupled, grad, float>, adam<decoupled, grad, bf16>, adam<decoupled, grad, f16>, adam<decoupled, grad, None> }

}  // namespace

extern const AdamKernels ZRT_JOIN(adam_kernels_, ZRT_ISA);
const AdamKernels ZRT_JOIN(adam_kernels_, ZRT_ISA) = {{
    {ZRT_ADAM_ROW(false, float), ZRT_ADAM_ROW(false, bf16), ZRT_ADAM_ROW(false, f16)},
    {ZRT_ADAM_ROW(true, float), ZRT_ADAM_ROW(true, bf16), ZRT_ADAM_ROW(true, f16)},
}};

}  // namespace zrt::optimizer
