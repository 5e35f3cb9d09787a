// The order of operations is that of sgd_kernels.cpp.
#include "optimizer/backend.h"
#include "optimizer/cuda/element_step.cuh"

namespace zrt::optimizer::cuda {
namespace {

template <SgdKind kind>
struct SgdRule {
  static constexpr int states = kind == SgdKind::plain ? 0 : 1;
  SgdParams params;
  const Decision* decision;  // in the GPU's memory

  __device__ bool skip() const { return decision->skip != 0; }
  __device__ SgdScalars scalars() const { return sgd_scalars(params, *decision); }
  __device__ static void apply(const SgdScalars& s, float grad, float& w, float& buffer, float&) {
    const float g = grad * s.grad_scale + s.decay * w;
    float step = g;
    if constexpr (kind != SgdKind::plain) {
      buffer = s.momentum * buffer + s.take * g;
      step = kind == SgdKind::momentum ? buffer : g + s.momentum * buffer;
    }
    w = w - s.lr * step;
  }
};

}  // namespace

void sgd_step(const SgdParams& params, const Decision& decision, const UnitPart& part) {
  switch (sgd_kind(params)) {
    case SgdKind::plain:
      return run_step(SgdRule<SgdKind::plain>{params, &decision}, part);
    case SgdKind::momentum:
      return run_step(SgdRule<SgdKind::momentum>{params, &decision}, part);
    case SgdKind::nesterov:
      return run_step(SgdRule<SgdKind::nesterov>{params, &decision}, part);
  }
}

}  // namespace zrt::optimizer::cuda
