// Compiled once per instruction set: see cmake/zrt_isa.cmake.
//
// The order of operations for one element; every line is one or more IEEE fp32 operations, evaluated left to right,
// none contracted:
//   g = grad · grad_scale + decay · w
//   b = momentum · b + take · g
//   plain: w = w − lr · g    momentum: w = w − lr · b    nesterov: w = w − lr · (g + momentum · b)
#include "optimizer/sgd_kernels.h"

#include "optimizer/update_kernel.h"

namespace zrt::optimizer {
namespace {

template <SgdKind kind, class Grad, class Weight>
void sgd(const SgdScalars& scalars, int64_t n, float* __restrict master, float* __restrict buffer,
         const void* __restrict grad_data, void* __restrict weight_data) {
  const SgdScalars s = scalars;
  const Grad* __restrict grad = static_cast<const Grad*>(grad_data);
  [[maybe_unused]] Weight* __restrict weight = static_cast<Weight*>(weight_data);
  for (int64_t i = 0; i < n; ++i) {
    float w = master[i];
    const float g = core::widen(grad[i]) * s.grad_scale + s.decay * w;
    float step = g;
    if constexpr (kind != SgdKind::plain) {
      const float b = s.momentum * buffer[i] + s.take * g;
      buffer[i] = b;
      step = kind == SgdKind::momentum ? b : g + s.momentum * b;
    }
    w = w - s.lr * step;
    master[i] = w;
    if constexpr (copies<Weight>) core::narrow(w, weight[i]);
  }
}

#define ZRT_SGD_ROW(kind, grad) \
  { sgd<kind, grad, float>, sgd<kind, grad, bf16>, sgd<kind, grad, f16>, sgd<kind, grad, None> }
#define ZRT_SGD(kind) \
  { ZRT_SGD_ROW(kind, float), ZRT_SGD_ROW(kind, bf16), ZRT_SGD_ROW(kind, f16) }

}  // namespace

extern const SgdKernels ZRT_JOIN(sgd_kernels_, ZRT_ISA);
const SgdKernels ZRT_JOIN(sgd_kernels_, ZRT_ISA) = {
    {ZRT_SGD(SgdKind::plain), ZRT_SGD(SgdKind::momentum), ZRT_SGD(SgdKind::nesterov)}};

}  // namespace zrt::optimizer
