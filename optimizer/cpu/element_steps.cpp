// The element-wise optimizers on the CPU: pieces for threads, and the kernel table of this processor.
#include "optimizer/adam_update.h"
#include "optimizer/cpu/form_step.h"
#include "optimizer/cpu/keep_weights.h"
#include "optimizer/pieces.h"
#include "optimizer/require_arrays.h"
#include "optimizer/steps.h"

namespace zrt::optimizer {
namespace {

template <class Rule, class Kernels>
void run_rule(const Kernels& kernels, const typename Rule::Params& params, const typename Rule::Scalars& scalars,
              const UnitPart& part) {
  const auto kernel = kernels.step[Rule::variant(params)][grad_index(part)][weight_index(part)];
  const auto state = [&](size_t number) { return number < part.states.size() ? part.states[number] : nullptr; };
  float *const first_state = state(0), *const second_state = state(1);
  for_pieces(part, [&](int64_t first, int64_t count, const void* grad, void* weight) {
    kernel(scalars, count, part.master + first, first_state ? first_state + first : nullptr,
           second_state ? second_state + first : nullptr, grad, weight);
  });
}

template <class Rule, class Kernels>
void run_step(const Kernels& kernels, const typename Rule::Params& params, const Decision& decision,
              const UnitPart& part) {
  if (decision.skip) return cpu::keep_weights(part);
  if (has_forms(params.moments, part)) return cpu::FormStep<Rule, Kernels>(kernels, params, decision, part).run();
  run_rule<Rule>(kernels, params, Rule::scalars(params, decision), part);
}

}  // namespace

const FormKernels& form_kernels(core::Isa isa) {
  return core::choose_isa(isa, form_kernels_v3, form_kernels_v4);
}

#define ZRT_STEP(step, name, Name) \
  const Name##Kernels& name##_kernels(core::Isa isa) { \
    return core::choose_isa(isa, name##_kernels_v3, name##_kernels_v4); \
  } \
  void cpu::step(const Name##Params& params, const Decision& decision, const UnitPart& part) { \
    run_step<Name##Rule>(name##_kernels(core::best_isa()), params, decision, part); \
  }
ZRT_ELEMENT_RULES(ZRT_STEP)

void cpu::adam_update(const AdamParams& params, const AdamStep& step, int64_t n, float* master, float* moment1,
                      float* moment2, const void* grad, DType grad_type, void* weight, DType weight_type) {
  require_chunks("adam_update", n);
  require_float("adam_update", "gradient", grad_type);
  if (weight) require_float("adam_update", "weight", weight_type);
  float* const states[] = {moment1, moment2};
  UnitPart part;
  part.count = n;
  part.master = master;
  part.grad = grad, part.grad_type = grad_type;
  part.weight = weight, part.weight_type = weight_type;
  part.states = states;
  run_rule<AdamRule>(adam_kernels(core::best_isa()), params,
                     AdamRule::scalars(params, step, step.lr, params.beta1, params.beta2), part);
}

}  // namespace zrt::optimizer
