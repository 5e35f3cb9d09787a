#include "core/keys/text.h"
#include "optimizer/spec.h"

namespace zrt::optimizer {

// Every optimizer, each on a line of its own: of NAME the function NAME_spec().
#define ZRT_OPTIMIZERS(X) \
  X(adam) \
  X(sgd) \
  X(lion) \
  X(adafactor) \
  X(muon)

#define ZRT_DECLARE_SPEC(name) const OptimizerSpec& name##_spec();
ZRT_OPTIMIZERS(ZRT_DECLARE_SPEC)

const std::vector<const OptimizerSpec*>& optimizer_specs() {
#define ZRT_SPEC_ADDRESS(name) &name##_spec(),
  static const std::vector<const OptimizerSpec*> all{ZRT_OPTIMIZERS(ZRT_SPEC_ADDRESS)};
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
