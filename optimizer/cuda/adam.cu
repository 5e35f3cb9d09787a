#include "optimizer/backend.h"
#include "optimizer/cuda/adam_rule.cuh"
#include "optimizer/cuda/element_step.cuh"

namespace zrt::optimizer::cuda {
namespace {

void run_adam(const AdamParams& params, const AdamStep& step, const Decision* decision, int64_t n,
              const StepArrays& arrays) {
  if (params.decoupled) {
    run_step(AdamRule<true>{params, step, decision}, n, arrays);
  } else {
    run_step(AdamRule<false>{params, step, decision}, n, arrays);
  }
}

}  // namespace

void adam_step(const AdamParams& params, const Decision& decision, const UnitPart& part) {
  run_adam(params, {}, &decision, part.count,
           {part.master, {part.states[0], part.states[1]}, part.grad, part.weight, part.grad_type, part.weight_type});
}

void adam_update(const AdamParams& params, const AdamStep& step, int64_t n, float* master, float* moment1,
                 float* moment2, const void* grad, DType grad_type, void* weight, DType weight_type) {
  run_adam(params, step, nullptr, n, {master, {moment1, moment2}, grad, weight, grad_type, weight_type});
}

}  // namespace zrt::optimizer::cuda
