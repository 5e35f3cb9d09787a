#include <cmath>
#include <tuple>

#include "optimizer/forms.h"
#include "optimizer/spec.h"
#include "optimizer/steps.h"

namespace zrt::optimizer {
namespace {

using namespace core::keys;

constexpr Key adam_keys[] = {
    key("lr", t_real, "0.001", between(0, largest_rate), Effect::results,
        "The learning rate, which the scheduler changes from step to step."),
    key("betas", t_list, "[0.9, 0.999]", half_open(0, 1), Effect::results,
        "How much of their old values the mean of gradients and that of squares keep in a step."),
    key("eps", t_real, "1e-08", between(0, 1), Effect::results,
        "What is added to the root of the mean square that updates are divided by."),
    key("weight_decay", t_real, "0.0", at_least(0), Effect::results,
        "How much weights shrink in a step, as a multiple of the rate."),
    key("bias_correction", t_bool, "true", Effect::results,
        "Whether the means are divided by what they lack in the first steps, in which they begin at 0."),
    {"amsgrad", t_bool, "false", Handling::refused, "AMSGrad is not supported"},
    {"torch_adam", t_bool, "false", Handling::inert, "there is one Adam implementation"},
    key("adam_w_mode", t_bool, "true", Effect::results,
        "Of Adam: whether weight decay acts on weights, as AdamW has it, rather than on gradients."),
    {"fp32_optimizer_states", t_bool, "true", Handling::refused, "memory.moments chooses the form of moments"},
    {"max_grad_norm", t_never, nullptr, Handling::refused, "use the top-level key gradient_clipping"},
};

class Adam : public ElementWise<AdamParams> {
 public:
  using ElementWise::ElementWise;

  std::vector<UnitState> states_of(const Unit& unit) const override {
    return {state(unit, "exp_avg", 0), state(unit, "exp_avg_sq", 1)};
  }

  bool has_betas() const override { return true; }

  void decide(const Rates& rates, Progress& progress, Decision& decision) const override {
    Optimizer::decide(rates, progress, decision);
    decision.beta1 = rates.betas ? static_cast<float>(rates.beta1) : params_.beta1;
    decision.beta2 = rates.betas ? static_cast<float>(rates.beta2) : params_.beta2;
    const double beta1 = static_cast<double>(decision.beta1), beta2 = static_cast<double>(decision.beta2);
    if (rates.betas) {
      // DeepSpeed does it so: the correction of t steps with today's betas.
      progress.beta1_power = std::pow(beta1, static_cast<double>(progress.updates));
      progress.beta2_power = std::pow(beta2, static_cast<double>(progress.updates));
    } else {
      progress.beta1_power *= beta1;
      progress.beta2_power *= beta2;
    }
    decision.bias_correction1 = params_.bias_correction ? static_cast<float>(1 - progress.beta1_power) : 1.0f;
    decision.bias_correction2 = params_.bias_correction ? static_cast<float>(1 - progress.beta2_power) : 1.0f;
  }

  void update(const Decision& decision, const UnitPart& part) const override { adam_step(params_, decision, part); }
};

OptimizerPtr read_adam(Values& values, const std::string& type) {
  AdamParams adam;
  values.check([&] { std::tie(adam.beta1, adam.beta2) = read_betas(values); });
  adam.eps = read_float(values, "eps");
  adam.weight_decay = read_float(values, "weight_decay");
  adam.bias_correction = values.flag("optimizer.params.bias_correction");
  // AdamW is always decoupled, and so is Adam unless adam_w_mode is false.
  const Value& decoupled = values.at("optimizer.params.adam_w_mode");
  const bool plain = type == "adam";
  adam.decoupled = !plain || decoupled.value.get<bool>();
  if (!plain && !decoupled.value.get<bool>()) {
    values.warnings.push_back(shown(decoupled) + " has no effect with optimizer.type = " +
                              values.text("optimizer.type") + "; Adam reads it.");
  }
  adam.moments = read_moments(values);
  return make_optimizer(adam);
}

}  // namespace

OptimizerPtr make_optimizer(const AdamParams& params) {
  return std::make_shared<Adam>(params);
}

const OptimizerSpec& adam_spec() {
  static const OptimizerSpec spec{{"Adam", "AdamW"}, "adam, adamw", adam_keys, true, read_adam};
  return spec;
}

}  // namespace zrt::optimizer
