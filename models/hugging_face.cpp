#include "models/hugging_face.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/printable.h"
#include "models/hugging_face_keys.h"

namespace zrt::models {
namespace {

const ModelSpec& spec_of(const std::string& type) {
  const ModelSpec* spec = find_model_spec(type);
  if (spec != nullptr && !spec->hugging_face.architectures.empty()) return *spec;
  refuse_config("model.type", fmt::format("'{}' has no form at Hugging Face", type));
}

void write_sizes(const HuggingFaceForm& form, const OrderedJson& model, OrderedJson& config) {
  for (const SizeKey& key : form.sizes) {
    if (model.contains(key.ours)) config[key.theirs] = model.at(key.ours);  // older checkpoints have no head_dim
  }
}

// Returns the section's place for a key; "experts.number" lies in an object of its own.
OrderedJson& own(OrderedJson& model, const std::string& key) {
  const size_t dot = key.find('.');
  return dot == std::string::npos ? model[key] : model[key.substr(0, dot)][key.substr(dot + 1)];
}

void read_sizes(const HuggingFaceForm& form, const OrderedJson& config, const std::string& name, OrderedJson& model) {
  for (const SizeKey& key : form.sizes) {
    const char* theirs = key.theirs;
    if (key.other_name != nullptr && config.contains(key.other_name)) {
      if (config.contains(theirs) && config.at(theirs) != config.at(key.other_name)) {
        refuse_config(name, fmt::format("'{}' is {} and '{}', another name for it, is {}; keep the right one", theirs,
                                        config.at(theirs).dump(), key.other_name, config.at(key.other_name).dump()));
      }
      theirs = key.other_name;
    }
    const auto found = config.find(theirs);
    if (key.null_is_left_out && found != config.end() && found->is_null()) continue;
    if (found == config.end() && key.fallback == 0) continue;
    own(model, key.ours) = positive_integer(config, theirs, key.fallback, name);
  }
}

}  // namespace

void refuse_config(const std::string& name, const std::string& what) {
  throw core::DataError(core::printable(fmt::format("{}: {}", name, what)));
}

int64_t positive_integer(const OrderedJson& config, const char* key, int64_t fallback, const std::string& name) {
  constexpr int64_t most = int64_t{1} << 31;
  const auto found = config.find(key);
  if (found == config.end()) return fallback;
  if (!found->is_number_integer() || *found < 1 || *found > most) {
    refuse_config(name, fmt::format("'{}' is {}; legal are integers from 1 to {}", key, found->dump(), most));
  }
  return found->get<int64_t>();
}

double number(const OrderedJson& config, const char* key, double fallback, const std::string& name) {
  const auto found = config.find(key);
  if (found == config.end()) return fallback;
  if (!found->is_number()) refuse_config(name, fmt::format("'{}' is {}; legal is a number", key, found->dump()));
  return found->get<double>();
}

std::string text(const OrderedJson& config, const char* key, const std::string& fallback, const std::string& name) {
  const auto found = config.find(key);
  if (found == config.end()) return fallback;
  if (!found->is_string()) refuse_config(name, fmt::format("'{}' is {}; legal is a text", key, found->dump()));
  return found->get<std::string>();
}

bool flag(const OrderedJson& config, const char* key, bool fallback, const std::string& name) {
  const auto found = config.find(key);
  if (found == config.end()) return fallback;
  if (!found->is_boolean()) {
    refuse_config(name, fmt::format("'{}' is {}; legal are true and false", key, found->dump()));
  }
  return found->get<bool>();
}

OrderedJson to_hugging_face(const OrderedJson& model, core::DType type) {
  const ModelSpec& spec = spec_of(model.value("type", ""));
  OrderedJson config{{"architectures", {spec.hugging_face.architectures.front()}}, {"model_type", spec.type}};
  write_sizes(spec.hugging_face, model, config);
  spec.hugging_face.write(model, config);
  config["tie_word_embeddings"] = model.at("tied");
  // The key is zrt's own: nothing else reads it.
  if (const auto sparse = model.find("sparse_attention"); sparse != model.end()) config["sparse_attention"] = *sparse;
  // Their defaults are ids of the published tokenizers.
  config["bos_token_id"] = config["eos_token_id"] = nullptr;
  config["torch_dtype"] = type == core::DType::bf16 ? "bfloat16" : type == core::DType::f16 ? "float16" : "float32";
  return config;
}

OrderedJson from_hugging_face(const OrderedJson& config, const std::string& name,
                              const std::function<void(const std::string&)>& warn) {
  if (!config.is_object()) refuse_config(name, "is no JSON object");
  const std::string type = text(config, "model_type", "", name);
  if (find_model_spec(type) == nullptr) {
    refuse_config(name, fmt::format("'model_type' is '{}'; zrt imports {}", type, model_types()));
  }
  const ModelSpec& spec = spec_of(type);
  check_config_keys(spec, config, name, warn);
  OrderedJson model{{"type", type}};
  read_sizes(spec.hugging_face, config, name, model);
  spec.hugging_face.read(config, name, model);
  model["tied"] = flag(config, "tie_word_embeddings", spec.tied, name);
  if (const auto sparse = config.find("sparse_attention"); sparse != config.end()) {
    if (!sparse->is_object()) refuse_config(name, "'sparse_attention' is no object; it is one that zrt wrote, or none");
    model["sparse_attention"] = *sparse;
  }
  return model;
}

std::string hugging_face_name(const std::string& type, const std::string& parameter, bool fused_experts) {
  const HuggingFaceForm& form = spec_of(type).hugging_face;
  if (!fused_experts || form.expert_place == nullptr) return form.tensor_name(parameter);
  const std::optional<ExpertPlace> place = form.expert_place(parameter);
  return place ? place->tensor : parameter;
}

bool stores_inputs_first(const std::string& type) {
  return spec_of(type).hugging_face.inputs_first;
}

std::optional<ExpertPlace> expert_place(const std::string& type, const std::string& parameter) {
  const HuggingFaceForm& form = spec_of(type).hugging_face;
  return form.expert_place == nullptr ? std::nullopt : form.expert_place(parameter);
}

std::optional<std::string> parameter_name(const OrderedJson& model, const std::string& tensor) {
  return spec_of(model.at("type")).hugging_face.parameter_name(model, tensor);
}

FusedTensor fused_tensor(const OrderedJson& model, const std::string& tensor) {
  const HuggingFaceForm& form = spec_of(model.at("type")).hugging_face;
  return form.fused == nullptr ? FusedTensor() : form.fused(model, tensor);
}

std::vector<SecondName> second_names(const OrderedJson& model) {
  std::vector<SecondName> names;
  for (const SecondName& name : spec_of(model.at("type")).hugging_face.second_names) {
    if (name.tied == model.at("tied")) names.push_back(name);
  }
  return names;
}

}  // namespace zrt::models
