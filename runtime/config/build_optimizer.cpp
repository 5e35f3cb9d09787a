#include <algorithm>
#include <tuple>

#include "core/error.h"
#include "runtime/config/build.h"

namespace zrt::runtime::configuration {
namespace {

const std::string optimizer_params = "optimizer.params.";

float single(const Values& values, const char* key, double low, double high) {
  return static_cast<float>(values.real(optimizer_params + key, low, high));
}

// "betas": two numbers in [0, 1).
std::pair<float, float> betas(const Values& values) {
  const Value& betas = values.at(optimizer_params + "betas");
  const auto good = [](const nlohmann::json& beta) { return beta.is_number() && beta >= 0 && beta < 1; };
  if (betas.value.size() != 2 || !good(betas.value[0]) || !good(betas.value[1])) {
    refuse(betas, "must be two numbers, each at least 0 and below 1; the default is [0.9, 0.999].");
  }
  return {static_cast<float>(betas.value[0].get<double>()), static_cast<float>(betas.value[1].get<double>())};
}

optimizer::AdamParams build_adam(Values& values, const std::string& type) {
  optimizer::AdamParams adam;
  values.check([&] { std::tie(adam.beta1, adam.beta2) = betas(values); });
  adam.eps = single(values, "eps", 0, 1);
  adam.weight_decay = single(values, "weight_decay", 0, infinity);
  adam.bias_correction = values.flag(optimizer_params + "bias_correction");
  // AdamW is always decoupled, and so is Adam unless adam_w_mode is false.
  const bool plain = type == "adam";
  adam.decoupled = !plain || values.flag(optimizer_params + "adam_w_mode");
  if (!plain && !values.flag(optimizer_params + "adam_w_mode")) {
    values.warnings.push_back(
        optimizer_params + "adam_w_mode = false (" + values.at(optimizer_params + "adam_w_mode").place +
        ") has no effect with optimizer.type = " + values.text("optimizer.type") + "; Adam reads it.");
  }
  return adam;
}

optimizer::SgdParams build_sgd(const Values& values) {
  const optimizer::SgdParams sgd{single(values, "momentum", 0, infinity), single(values, "dampening", 0, 1),
                                 single(values, "weight_decay", 0, infinity),
                                 values.flag(optimizer_params + "nesterov")};
  if (sgd.nesterov && (sgd.momentum == 0 || sgd.dampening != 0)) {
    refuse(values.at(optimizer_params + "nesterov"), "needs a momentum above 0 and no dampening.");
  }
  return sgd;
}

optimizer::LionParams build_lion(const Values& values) {
  optimizer::LionParams lion;
  values.check([&] { std::tie(lion.beta1, lion.beta2) = betas(values); });
  lion.weight_decay = single(values, "weight_decay", 0, infinity);
  return lion;
}

// Adafactor makes its own rate with relative_step and needs one without.
void check_adafactor_rate(const Values& values, const optimizer::AdafactorParams& adafactor) {
  if (adafactor.warmup_init && !adafactor.relative_step) {
    refuse(values.at(optimizer_params + "warmup_init"), "needs " + optimizer_params + "relative_step = true.");
  }
  const bool given = !values.is_null(optimizer_params + "lr");
  if (adafactor.relative_step && given) {
    refuse(values.at(optimizer_params + "lr"),
           "contradicts " + optimizer_params +
               "relative_step = true, by which Adafactor sets its own rate. Remove lr, or "
               "set relative_step to false.");
  }
  if (!adafactor.relative_step && !given) {
    values.missing(optimizer_params + "lr", "with " + optimizer_params + "relative_step = false Adafactor needs it.");
  }
}

optimizer::AdafactorParams build_adafactor(const Values& values) {
  optimizer::AdafactorParams adafactor;
  values.check([&] {
    const Value& eps = values.at(optimizer_params + "eps");
    const auto good = [](const nlohmann::json& e) { return e.is_number() && e > 0 && e <= 1; };
    if (eps.value.size() != 2 || !good(eps.value[0]) || !good(eps.value[1])) {
      refuse(eps, "must be two numbers above 0 and at most 1; the default is [1e-30, 0.001].");
    }
    adafactor.eps1 = eps.value[0].get<double>();
    adafactor.eps2 = eps.value[1].get<double>();
  });
  adafactor.clip_threshold = values.real(optimizer_params + "clip_threshold", 1e-6, infinity);
  adafactor.decay_rate = values.real(optimizer_params + "decay_rate", -10, 0);
  adafactor.momentum = !values.is_null(optimizer_params + "beta1");
  if (adafactor.momentum) adafactor.beta1 = values.real(optimizer_params + "beta1", 0, 0.9999999);
  adafactor.weight_decay = values.real(optimizer_params + "weight_decay", 0, infinity);
  adafactor.scale_parameter = values.flag(optimizer_params + "scale_parameter");
  adafactor.relative_step = values.flag(optimizer_params + "relative_step");
  adafactor.warmup_init = values.flag(optimizer_params + "warmup_init");
  check_adafactor_rate(values, adafactor);
  return adafactor;
}

}  // namespace

OptimizerConfig build_optimizer(Values& values) {
  // DeepSpeed leaves a missing optimizer to its caller's code; here it is AdamW with DeepSpeed's defaults.
  if (values.is_null("optimizer.type")) {
    values.infer("optimizer.type", "AdamW");
    values.warnings.push_back("optimizer.type is not given: AdamW is used, with " + optimizer_params +
                              "lr = " + printed(values.at(optimizer_params + "lr").value) + " (" +
                              std::string(from_name(values.at(optimizer_params + "lr").from)) + ").");
  }
  std::string type = values.text("optimizer.type");
  std::transform(type.begin(), type.end(), type.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c); });
  OptimizerConfig optimizer;
  if (type == "sgd") {
    optimizer.params = build_sgd(values);
  } else if (type == "lion") {
    optimizer.params = build_lion(values);
  } else if (type == "adafactor") {
    optimizer.params = build_adafactor(values);
  } else {
    optimizer.params = build_adam(values, type);
  }
  optimizer.lr = values.is_null(optimizer_params + "lr") ? 0 : values.real(optimizer_params + "lr", 0, largest_rate);
  return optimizer;
}

}  // namespace zrt::runtime::configuration
