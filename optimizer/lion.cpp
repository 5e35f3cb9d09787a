#include <tuple>

#include "optimizer/forms.h"
#include "optimizer/spec.h"
#include "optimizer/steps.h"

namespace zrt::optimizer {
namespace {

using namespace core::keys;

constexpr Key lion_keys[] = {
    key("lr", t_real, "0.001", between(0, largest_rate), Effect::results,
        "The learning rate, which the scheduler changes from step to step."),
    key("betas", t_list, "[0.9, 0.999]", half_open(0, 1), Effect::results,
        "The share of the mean in an update, and of its old value that the mean keeps in a step."),
    key("weight_decay", t_real, "0.0", at_least(0), Effect::results,
        "How much weights shrink in a step, as a multiple of the rate."),
    {"max_grad_norm", t_never, nullptr, Handling::refused, "use the top-level key gradient_clipping"},
};

class Lion : public ElementWise<LionParams> {
 public:
  using ElementWise::ElementWise;

  std::vector<UnitState> states_of(const Unit& unit) const override { return {state(unit, "exp_avg", 0)}; }

  bool has_betas() const override { return true; }

  void decide(const Rates& rates, Progress& progress, Decision& decision) const override {
    Optimizer::decide(rates, progress, decision);
    decision.beta1 = rates.betas ? static_cast<float>(rates.beta1) : params_.beta1;
    decision.beta2 = rates.betas ? static_cast<float>(rates.beta2) : params_.beta2;
  }

  void update(const Decision& decision, const UnitPart& part) const override { lion_step(params_, decision, part); }
};

OptimizerPtr read_lion(Values& values, const std::string&) {
  LionParams lion;
  values.check([&] { std::tie(lion.beta1, lion.beta2) = read_betas(values); });
  lion.weight_decay = read_float(values, "weight_decay");
  lion.moments = read_moments(values);
  return make_optimizer(lion);
}

}  // namespace

OptimizerPtr make_optimizer(const LionParams& params) {
  return std::make_shared<Lion>(params);
}

const OptimizerSpec& lion_spec() {
  static const OptimizerSpec spec{{"Lion"}, "lion", lion_keys, true, read_lion};
  return spec;
}

}  // namespace zrt::optimizer
