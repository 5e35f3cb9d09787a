// Adam's arithmetic for one element, in the order of operations of adam_kernels.cpp; a rule of element_step.cuh.
#pragma once
#include <cuda_runtime.h>

#include "optimizer/adam_update.h"
#include "optimizer/scalars.h"

namespace zrt::optimizer::cuda {
namespace {

template <bool decoupled>
struct AdamRule {
  static constexpr int states = 2;
  AdamParams params;
  AdamStep step;             // used where there is no decision
  const Decision* decision;  // in the GPU's memory

  __device__ bool skip() const { return decision && decision->skip != 0; }
  __device__ AdamScalars scalars() const {
    return decision ? adam_scalars(params, *decision) : adam_scalars(params, step);
  }
  __device__ static void apply(const AdamScalars& s, float grad, float& w, float& m, float& v) {
    float g = grad * s.grad_scale;
    if constexpr (decoupled) {
      w = w - s.decay * w;
    } else {
      g = g + s.decay * w;
    }
    m = s.beta1 * m + s.one_minus_beta1 * g;
    v = s.beta2 * v + s.one_minus_beta2 * (g * g);
    w = w - s.step_size * m / (std::sqrt(v) / s.root_bc2 + s.eps);
  }
};

}  // namespace
}  // namespace zrt::optimizer::cuda
