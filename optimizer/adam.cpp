#include <cmath>

#include "optimizer/adam_forms.h"
#include "optimizer/backend.h"

namespace zrt::optimizer {
namespace {

class Adam : public Optimizer {
 public:
  explicit Adam(const AdamParams& params) : params_(params) {}

  std::vector<UnitState> states(const Unit& unit) const override {
    const auto [first, second] = moment_forms(params_.moments);
    return {element_wise(unit, "exp_avg", core::Category::moment1, first),
            element_wise(unit, "exp_avg_sq", core::Category::moment2, second)};
  }

  void decide(const Rates& rates, Progress& progress, Decision& decision) const override {
    Optimizer::decide(rates, progress, decision);
    decision.beta1 = rates.betas ? static_cast<float>(rates.beta1) : params_.beta1;
    decision.beta2 = rates.betas ? static_cast<float>(rates.beta2) : params_.beta2;
    const double beta1 = static_cast<double>(decision.beta1), beta2 = static_cast<double>(decision.beta2);
    if (rates.betas) {
      // As DeepSpeed does it: the correction of t steps with today's betas.
      progress.beta1_power = std::pow(beta1, static_cast<double>(progress.updates));
      progress.beta2_power = std::pow(beta2, static_cast<double>(progress.updates));
    } else {
      progress.beta1_power *= beta1;
      progress.beta2_power *= beta2;
    }
    decision.bias_correction1 = params_.bias_correction ? static_cast<float>(1 - progress.beta1_power) : 1.0f;
    decision.bias_correction2 = params_.bias_correction ? static_cast<float>(1 - progress.beta2_power) : 1.0f;
  }

  void update(const Decision& decision, const UnitPart& part) const override {
    (has_forms(params_, part) ? adam_forms_step : adam_step)(params_, decision, part);
  }

 private:
  AdamParams params_;
};

}  // namespace

std::shared_ptr<const Optimizer> make_optimizer(const AdamParams& params) {
  return std::make_shared<Adam>(params);
}

}  // namespace zrt::optimizer
