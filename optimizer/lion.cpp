#include "optimizer/backend.h"

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

  void update(const Decision& decision, const UnitPart& part) const override { lion_step(params_, decision, part); }

 private:
  LionParams params_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_optimizer(const LionParams& params) {
  return std::make_shared<Lion>(params);
}

}  // namespace zrt::optimizer
