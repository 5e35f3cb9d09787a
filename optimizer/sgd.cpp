#include "optimizer/forms.h"
#include "optimizer/spec.h"
#include "optimizer/steps.h"

namespace zrt::optimizer {
namespace {

using namespace core::keys;

// DeepSpeed passes these to torch.optim.SGD.
constexpr Key sgd_keys[] = {
    key("lr", t_real, "0.001", between(0, largest_rate), Effect::results,
        "The learning rate, which the scheduler changes from step to step."),
    key("momentum", t_real, "0.0", at_least(0), Effect::results,
        "How much of the last update goes into the next; 0: no momentum, and no state."),
    key("dampening", t_real, "0.0", between(0, 1), Effect::results,
        "The share of a gradient that does not enter the momentum."),
    key("weight_decay", t_real, "0.0", at_least(0), Effect::results,
        "What multiple of a weight is added to its gradient."),
    key("nesterov", t_bool, "false", Effect::results, "Nesterov's form of momentum."),
    {"maximize", t_bool, "false", Handling::refused, "the loss is minimised"},
    {"foreach", t_bool | t_null, "null", Handling::inert, "there is one implementation"},
    {"differentiable", t_bool, "false", Handling::refused, "there is no autograd"},
    {"fused", t_bool | t_null, "null", Handling::inert, "there is one implementation"},
    {"max_grad_norm", t_never, nullptr, Handling::refused, "use the top-level key gradient_clipping"},
};

class Sgd : public ElementWise<SgdParams> {
 public:
  using ElementWise::ElementWise;

  std::vector<UnitState> states_of(const Unit& unit) const override {
    if (params_.momentum == 0) return {};
    return {state(unit, "momentum_buffer", 0)};
  }

  int64_t alignment() const override { return params_.momentum == 0 ? unit_alignment : ElementWise::alignment(); }

  void update(const Decision& decision, const UnitPart& part) const override { sgd_step(params_, decision, part); }
};

OptimizerPtr read_sgd(Values& values, const std::string&) {
  const Value& nesterov = values.at("optimizer.params.nesterov");
  const SgdParams sgd{read_float(values, "momentum"), read_float(values, "dampening"),
                      read_float(values, "weight_decay"), nesterov.value.get<bool>(), read_moments(values)};
  if (sgd.nesterov && (sgd.momentum == 0 || sgd.dampening != 0)) {
    refuse(nesterov, "needs a momentum above 0 and no dampening.");
  }
  for (const auto& [key, idle] : {std::pair{"optimizer.params.dampening", sgd.dampening != 0},
                                  std::pair{"memory.moments", sgd.moments != Moments::f32}}) {
    if (sgd.momentum != 0 || !idle) continue;
    values.warnings.push_back(shown(values.at(key)) +
                              " has no effect: SGD without optimizer.params.momentum keeps none.");
  }
  return make_optimizer(sgd);
}

}  // namespace

OptimizerPtr make_optimizer(const SgdParams& params) {
  return std::make_shared<Sgd>(params);
}

const OptimizerSpec& sgd_spec() {
  static const OptimizerSpec spec{{"SGD"}, "sgd", sgd_keys, true, read_sgd};
  return spec;
}

}  // namespace zrt::optimizer
