// The order of operations is that of adam_kernels.cpp.
#include "optimizer/backend.h"
#include "optimizer/cuda/element_step.cuh"

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

void run_adam(const AdamParams& params, const AdamStep& step, const Decision* decision, int64_t n,
              const StepArrays& arrays, core::DType grad, core::DType weight) {
  if (params.decoupled) {
    run_step(AdamRule<true>{params, step, decision}, n, arrays, grad, weight);
  } else {
    run_step(AdamRule<false>{params, step, decision}, n, arrays, grad, weight);
  }
}

}  // namespace

void adam_step(const AdamParams& params, const Decision& decision, const UnitPart& part) {
  run_adam(params, {}, &decision, part.count, {part.master, {part.states[0], part.states[1]}, part.grad, part.weight},
           part.grad_type, part.weight_type);
}

void adam_update(const AdamParams& params, const AdamStep& step, int64_t n, float* master, float* moment1,
                 float* moment2, const void* grad, DType grad_type, void* weight, DType weight_type) {
  run_adam(params, step, nullptr, n, {master, {moment1, moment2}, grad, weight}, grad_type, weight_type);
}

}  // namespace zrt::optimizer::cuda
