#include "optimizer/adam_update.h"
#include "optimizer/cuda/element_step.cuh"
#include "optimizer/cuda/form_step.cuh"
#include "optimizer/require_arrays.h"
#include "optimizer/steps.h"

namespace zrt::optimizer::cuda {
namespace {

template <class Rule, int variant = 0>
void run_rule(const typename Rule::Params& params, const Decision& decision, const UnitPart& part) {
  if (Rule::variant(params) == variant) {
    const AtDecision<Rule, variant> step{params, &decision};
    return has_forms(params.moments, part) ? run_forms(step, params.moments, part) : run_step(step, part);
  }
  if constexpr (variant + 1 < Rule::variants) run_rule<Rule, variant + 1>(params, decision, part);
}

}  // namespace

#define ZRT_STEP(step, name, Name) \
  void step(const Name##Params& params, const Decision& decision, const UnitPart& part) { \
    run_rule<Name##Rule>(params, decision, part); \
  }
ZRT_ELEMENT_RULES(ZRT_STEP)

void adam_update(const AdamParams& params, const AdamStep& step, int64_t n, float* master, float* moment1,
                 float* moment2, const void* grad, DType grad_type, void* weight, DType weight_type) {
  require_chunks("adam_update", n);
  require_float("adam_update", "gradient", grad_type);
  if (weight) require_float("adam_update", "weight", weight_type);
  const StepArrays arrays{master, {moment1, moment2}, grad, weight, grad_type, weight_type};
  const AdamScalars scalars = AdamRule::scalars(params, step, step.lr, params.beta1, params.beta2);
  if (params.decoupled) return run_step(AtScalars<AdamRule, 1>{scalars}, n, arrays);
  run_step(AtScalars<AdamRule, 0>{scalars}, n, arrays);
}

}  // namespace zrt::optimizer::cuda
