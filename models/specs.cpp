#include "models/spec.h"

namespace zrt::models {

// Every type of model, each on a line of its own: of NAME the function NAME_spec(). The first is the type of a model
// that names none.
#define ZRT_MODELS(X) \
  X(gpt2) \
  X(llama) \
  X(qwen2) \
  X(qwen3) \
  X(phi3) \
  X(mistral) \
  X(mixtral) \
  X(qwen3_moe) \
  X(gemma2) \
  X(gemma3_text) \
  X(bert) \
  X(megatron_bert)

#define ZRT_DECLARE_SPEC(name) const ModelSpec& name##_spec();
ZRT_MODELS(ZRT_DECLARE_SPEC)

const std::vector<const ModelSpec*>& model_specs() {
#define ZRT_SPEC_ADDRESS(name) &name##_spec(),
  static const std::vector<const ModelSpec*> all{ZRT_MODELS(ZRT_SPEC_ADDRESS)};
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

void refuse_uneven_tensor(const core::keys::Values& values, const ModelSizes& sizes, const std::vector<Heads>& all) {
  const std::string uneven = uneven_heads(sizes.degrees.tensor, all);
  if (!uneven.empty()) core::keys::refuse(values.at("parallel.tensor"), uneven);
}

}  // namespace zrt::models
