#include "optimizer/lion_kernels.h"
#include "optimizer/pieces.h"

namespace zrt::optimizer {
namespace {

class Lion : public Optimizer {
 public:
  explicit Lion(const LionParams& params) : params_(params) {}

  std::vector<UnitState> states(const Unit& unit) const override {
    return {element_wise(unit, "exp_avg", core::Category::moment1)};
  }

  void decide(const Rates& rates, Progress& progress, Decision& decision) const override {
    Optimizer::decide(rates, progress, decision);
    decision.beta1 = rates.betas ? static_cast<float>(rates.beta1) : params_.beta1;
    decision.beta2 = rates.betas ? static_cast<float>(rates.beta2) : params_.beta2;
  }

  void update(const Decision& decision, const UnitPart& part) const override {
    const float lr = static_cast<float>(decision.lr);
    const LionScalars scalars{decision.beta1,
                              1.0f - decision.beta1,
                              decision.beta2,
                              1.0f - decision.beta2,
                              decision.grad_scale,
                              1.0f - lr * params_.weight_decay,
                              lr};
    const LionKernel kernel = lion_kernels(core::best_isa()).step[grad_index(part)][weight_index(part)];
    for_pieces(part, [&](int64_t first, int64_t count, const void* grad, void* weight) {
      kernel(scalars, count, part.master + first, part.states[0] + first, grad, weight);
    });
  }

 private:
  LionParams params_;
};

}  // namespace

const LionKernels& lion_kernels(core::Isa isa) {
  return choose_isa(isa, lion_kernels_baseline, lion_kernels_v3, lion_kernels_v4);
}

std::shared_ptr<const Optimizer> make_optimizer(const LionParams& params) {
  return std::make_shared<Lion>(params);
}

}  // namespace zrt::optimizer
