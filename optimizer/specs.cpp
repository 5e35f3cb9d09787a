#include "core/keys/text.h"
#include "optimizer/spec.h"

namespace zrt::optimizer {

const OptimizerSpec& adam_spec();
const OptimizerSpec& sgd_spec();
const OptimizerSpec& lion_spec();
const OptimizerSpec& adafactor_spec();
const OptimizerSpec& muon_spec();

const std::vector<const OptimizerSpec*>& optimizer_specs() {
  static const std::vector<const OptimizerSpec*> all{&adam_spec(), &sgd_spec(), &lion_spec(), &adafactor_spec(),
                                                     &muon_spec()};
  return all;
}

const OptimizerSpec* find_optimizer_spec(std::string_view type) {
  const std::string wanted = core::keys::in_lower_case(type);
  for (const OptimizerSpec* spec : optimizer_specs()) {
    for (const std::string& known : spec->types) {
      if (core::keys::in_lower_case(known) == wanted) return spec;
    }
  }
  return nullptr;
}

std::string optimizer_types() {
  std::vector<std::string> names;
  for (const OptimizerSpec* spec : optimizer_specs()) names.insert(names.end(), spec->types.begin(), spec->types.end());
  const std::string last = names.back();
  names.pop_back();
  return core::keys::join(names) + " and " + last;
}

float read_float(const core::keys::Values& values, const char* key, double low, double high) {
  return static_cast<float>(values.real(std::string("optimizer.params.") + key, low, high));
}

std::pair<float, float> read_betas(const core::keys::Values& values) {
  const core::keys::Value& betas = values.at("optimizer.params.betas");
  const auto good = [](const nlohmann::json& beta) { return beta.is_number() && beta >= 0 && beta < 1; };
  if (betas.value.size() != 2 || !good(betas.value[0]) || !good(betas.value[1])) {
    core::keys::refuse(betas, "must be two numbers, each at least 0 and below 1; the default is [0.9, 0.999].");
  }
  return {static_cast<float>(betas.value[0].get<double>()), static_cast<float>(betas.value[1].get<double>())};
}

}  // namespace zrt::optimizer
