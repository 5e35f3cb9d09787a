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

std::vector<std::string> optimizer_type_names() {
  std::vector<std::string> names;
  for (const OptimizerSpec* spec : optimizer_specs()) names.insert(names.end(), spec->types.begin(), spec->types.end());
  return names;
}

std::string optimizer_types() {
  std::vector<std::string> names = optimizer_type_names();
  const std::string last = names.back();
  names.pop_back();
  return core::keys::join(names) + " and " + last;
}

float read_float(const core::keys::Values& values, const char* key) {
  return static_cast<float>(values.real(std::string("optimizer.params.") + key));
}

std::pair<float, float> read_betas(const core::keys::Values& values) {
  const std::vector<double> betas = values.reals("optimizer.params.betas", 2);
  return {static_cast<float>(betas[0]), static_cast<float>(betas[1])};
}

Moments read_moments(const core::keys::Values& values) {
  const std::string form = values.text("memory.moments");
  return form == "bf16" ? Moments::bf16 : form == "int8" ? Moments::int8 : Moments::f32;
}

}  // namespace zrt::optimizer
