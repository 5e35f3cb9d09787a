// Two rounds of sums. Round 0: squares of gradients by row and column, and of weights; its fold updates the statistics
// and leaves factors in the work buffer. Round 1: squares of the direction; its fold leaves each parameter's clipping.
// A rank sums over its part of a tensor; statistics are of the whole tensor, and every rank has all of them: they are
// small, and do not depend on how it is cut.
#include <algorithm>
#include <cmath>

#include "optimizer/adafactor_part.h"
#include "optimizer/spec.h"
#include "optimizer/steps.h"

namespace zrt::optimizer {
namespace {

using namespace core::keys;

// The keys of Hugging Face's Adafactor.
constexpr Key adafactor_keys[] = {
    key("lr", t_real | t_null, "null", between(0, largest_rate), Effect::results,
        "The learning rate; null: relative_step makes one."),
    key("eps", t_list, "[1e-30, 0.001]", between(1e-38, 1), Effect::results,
        "What is added to squared gradients, and the smallest size of a parameter for its rate."),
    key("clip_threshold", t_real, "1.0", at_least(1e-6), Effect::results,
        "The largest root mean square of a parameter's update."),
    key("decay_rate", t_real, "-0.8", between(-10, 0), Effect::results,
        "The mean of squares forgets step t to the power of this: nearer to 0 is faster."),
    key("beta1", t_real | t_null, "null", half_open(0, 1), Effect::results,
        "How much of its old value the mean of gradients keeps in a step; null: there is no such mean."),
    key("weight_decay", t_real, "0.0", at_least(0), Effect::results,
        "How much weights shrink in a step, as a multiple of the rate."),
    key("scale_parameter", t_bool, "true", Effect::results,
        "Whether a parameter's rate grows with the root mean square of its weights."),
    key("relative_step", t_bool, "true", Effect::results,
        "Whether the rate follows from the step number, in place of lr and a scheduler."),
    key("warmup_init", t_bool, "false", Effect::results, "With relative_step, whether the rate begins small."),
    {"max_grad_norm", t_never, nullptr, Handling::refused, "use the top-level key gradient_clipping"},
};

class Adafactor : public OptimizerWith<AdafactorParams> {
 public:
  using OptimizerWith::OptimizerWith;

  std::vector<UnitState> states_of(const Unit& unit) const override {
    const AdafactorLayout layout = adafactor_layout(unit);
    UnitState row{"exp_avg_sq_row", core::Category::moment2, false, layout.row_state, {}};
    UnitState column{"exp_avg_sq_col", core::Category::moment2, false, layout.column_state, {}};
    UnitState vector{"exp_avg_sq", core::Category::moment2, false, layout.vectors, {}};
    for (const AdafactorPlace& place : layout.places) {
      std::vector<int64_t> shape = place.param->param->whole_shape();
      if (!place.factored) {
        vector.tensors.push_back({place.param, shape, place.column_state});
        continue;
      }
      std::vector<int64_t> rows(shape.begin(), shape.end() - 1);
      shape.erase(shape.end() - 2);
      row.tensors.push_back({place.param, rows, place.row_state});
      column.tensors.push_back({place.param, shape, place.column_state});
    }
    std::vector<UnitState> states;
    if (params_.momentum) states.push_back(element_wise(unit, "exp_avg", core::Category::moment1));
    for (UnitState* state : {&row, &column, &vector}) {
      if (state->elements > 0) states.push_back(std::move(*state));
    }
    return states;
  }

  const char* rate_setting() const override {
    return params_.relative_step ? "optimizer.params.relative_step = true" : nullptr;
  }

  void decide(const Rates& rates, Progress& progress, Decision& decision) const override {
    Optimizer::decide(rates, progress, decision);
    const double t = static_cast<double>(decision.updates);
    decision.statistics_beta = 1 - std::pow(t, params_.decay_rate);
    if (!params_.relative_step) return;
    decision.lr = std::min(params_.warmup_init ? 1e-6 * t : 1e-2, 1 / std::sqrt(t));
  }

  uint32_t rounds(const Unit&) const override { return 2; }
  bool shares_sums() const override { return true; }
  uint64_t work_bytes(const Unit& unit) const override {
    return unit.params.size() * sizeof(AdafactorScale) +
           static_cast<uint64_t>(adafactor_layout(unit).factors) * sizeof(float);
  }
  uint64_t share_bytes(const Unit& unit, uint32_t round) const override { return adafactor_share_bytes(unit, round); }

  void sum(uint32_t round, const Decision& decision, const UnitPart& part, std::byte* share) const override {
    core::fill_bytes(share, 0, share_bytes(*part.unit, round));
    adafactor_sum(params_, round, decision, part, share);
  }
  void fold(uint32_t round, const Decision& decision, const UnitPart& part, const std::byte* shares,
            int ranks) const override {
    // Nobody makes the factors of padding.
    if (round == 0 && part.unit->sliced()) core::fill_bytes(part.work, 0, work_bytes(*part.unit));
    adafactor_fold(params_, round, decision, part, shares, ranks);
  }
  void update(const Decision& decision, const UnitPart& part) const override {
    adafactor_step(params_, decision, part);
  }
};

const std::string prefix = "optimizer.params.";

// Adafactor makes its own rate with relative_step and needs one without.
void check_rate(const Values& values, const AdafactorParams& adafactor) {
  if (adafactor.warmup_init && !adafactor.relative_step) {
    refuse(values.at(prefix + "warmup_init"), "needs " + prefix + "relative_step = true.");
  }
  const bool given = !values.is_null(prefix + "lr");
  if (adafactor.relative_step && given) {
    refuse(values.at(prefix + "lr"), "contradicts " + prefix +
                                         "relative_step = true, by which Adafactor sets its own rate. Remove lr, or "
                                         "set relative_step to false.");
  }
  if (!adafactor.relative_step && !given) {
    values.missing(prefix + "lr", "with " + prefix + "relative_step = false Adafactor needs it.");
  }
}

OptimizerPtr read_adafactor(Values& values, const std::string&) {
  AdafactorParams adafactor;
  values.check([&] {
    const std::vector<double> eps = values.reals(prefix + "eps", 2);
    adafactor.eps1 = eps[0];
    adafactor.eps2 = eps[1];
  });
  adafactor.clip_threshold = values.real(prefix + "clip_threshold");
  adafactor.decay_rate = values.real(prefix + "decay_rate");
  adafactor.momentum = !values.is_null(prefix + "beta1");
  if (adafactor.momentum) adafactor.beta1 = values.real(prefix + "beta1");
  adafactor.weight_decay = values.real(prefix + "weight_decay");
  adafactor.scale_parameter = values.flag(prefix + "scale_parameter");
  adafactor.relative_step = values.flag(prefix + "relative_step");
  adafactor.warmup_init = values.flag(prefix + "warmup_init");
  check_rate(values, adafactor);
  return make_optimizer(adafactor);
}

}  // namespace

OptimizerPtr make_optimizer(const AdafactorParams& params) {
  return std::make_shared<Adafactor>(params);
}

const OptimizerSpec& adafactor_spec() {
  static const OptimizerSpec spec{{"Adafactor"}, "adafactor", adafactor_keys, false, read_adafactor};
  return spec;
}

}  // namespace zrt::optimizer
