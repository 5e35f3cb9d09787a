// The order of operations is that of lion_kernels.cpp.
#include "optimizer/backend.h"
#include "optimizer/cuda/element_step.cuh"

namespace zrt::optimizer::cuda {
namespace {

struct LionRule {
  static constexpr int states = 1;
  LionParams params;
  const Decision* decision;  // in the GPU's memory

  __device__ bool skip() const { return decision->skip != 0; }
  __device__ LionScalars scalars() const { return lion_scalars(params, *decision); }
  __device__ static void apply(const LionScalars& s, float grad, float& w, float& m, float&) {
    const float g = grad * s.grad_scale;
    const float c = s.beta1 * m + s.one_minus_beta1 * g;
    const float step = c > 0 ? s.lr : c < 0 ? -s.lr : 0.0f;
    w = s.keep * w - step;
    m = s.beta2 * m + s.one_minus_beta2 * g;
  }
};

}  // namespace

void lion_step(const LionParams& params, const Decision& decision, const UnitPart& part) {
  run_step(LionRule{params, &decision}, part);
}

}  // namespace zrt::optimizer::cuda
