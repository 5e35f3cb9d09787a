#include "models/spec.h"

namespace zrt::models {

const ModelSpec& gpt2_spec();
const ModelSpec& llama_spec();
const ModelSpec& qwen3_spec();

const std::vector<const ModelSpec*>& model_specs() {
  static const std::vector<const ModelSpec*> all{&gpt2_spec(), &llama_spec(), &qwen3_spec()};
  return all;
}

const ModelSpec* find_model_spec(std::string_view type) {
  for (const ModelSpec* spec : model_specs()) {
    if (spec->type == type) return spec;
  }
  return nullptr;
}

std::string model_types() {
  const auto& specs = model_specs();
  std::string text;
  for (size_t i = 0; i < specs.size(); ++i) {
    text += (i == 0 ? "\"" : i + 1 < specs.size() ? ", \"" : " and \"") + std::string(specs[i]->type) + "\"";
  }
  return text;
}

FoundPreset find_preset(std::string_view name) {
  for (const ModelSpec* spec : model_specs()) {
    for (const Preset& preset : spec->presets) {
      if (preset.name == name) return {spec, &preset};
    }
  }
  return {};
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const ModelSpec* spec : model_specs()) {
    for (const Preset& preset : spec->presets) names.push_back(preset.name);
  }
  return names;
}

void refuse_uneven_heads(const core::keys::Values& values, const ModelSizes& sizes) {
  if (sizes.hidden % sizes.heads == 0) return;
  const std::string hidden = std::to_string(sizes.hidden);
  core::keys::refuse(values.at("model.heads"), "does not divide model.hidden = " + hidden +
                                                   ": every head takes an equal part. Try a divisor of " + hidden +
                                                   ", or another model.hidden.");
}

}  // namespace zrt::models
