#include "models/hugging_face.h"

#include <fmt/format.h>

#include "core/error.h"

namespace zrt::models {
namespace {

const ModelSpec& spec_of(const std::string& type) {
  if (const ModelSpec* spec = find_model_spec(type)) return *spec;
  refuse_config("model.type", fmt::format("'{}' has no form at Hugging Face", type));
}

}  // namespace

void refuse_config(const std::string& name, const std::string& what) {
  throw core::DataError(fmt::format("{}: {}", name, what));
}

int64_t required_size(const OrderedJson& config, const char* key, const std::string& name) {
  constexpr int64_t most = int64_t{1} << 31;
  const auto found = config.find(key);
  if (found == config.end()) refuse_config(name, fmt::format("'{}' is missing", key));
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

void only(const OrderedJson& config, const char* key, const OrderedJson& legal, const std::string& name) {
  const auto found = config.find(key);
  if (found == config.end() || *found == legal || (found->is_null() && legal == false)) return;
  refuse_config(name, fmt::format("'{}' is {}; zrt's model has {} only", key, found->dump(), legal.dump()));
}

OrderedJson to_hugging_face(const OrderedJson& model, core::DType type) {
  const ModelSpec& spec = spec_of(model.value("type", ""));
  OrderedJson config{{"architectures", {spec.hugging_face.architecture}}, {"model_type", spec.type}};
  spec.hugging_face.write(model, config);
  config["tie_word_embeddings"] = model.at("tied");
  // Of zrt's own: nothing else reads it.
  if (const auto sparse = model.find("sparse_attention"); sparse != model.end()) config["sparse_attention"] = *sparse;
  // Their defaults are ids of the published tokenizers.
  config["bos_token_id"] = config["eos_token_id"] = nullptr;
  config["torch_dtype"] = type == core::DType::bf16 ? "bfloat16" : type == core::DType::f16 ? "float16" : "float32";
  return config;
}

OrderedJson from_hugging_face(const OrderedJson& config, const std::string& name) {
  if (!config.is_object()) refuse_config(name, "is no JSON object");
  const std::string type = text(config, "model_type", "", name);
  const ModelSpec* spec = find_model_spec(type);
  if (spec == nullptr) {
    refuse_config(name, fmt::format("'model_type' is '{}'; zrt imports {}", type, model_types()));
  }
  OrderedJson model{{"type", type}};
  spec->hugging_face.read(config, name, model);
  model["tied"] = flag(config, "tie_word_embeddings", spec->tied, name);
  if (const auto sparse = config.find("sparse_attention"); sparse != config.end()) {
    if (!sparse->is_object()) refuse_config(name, "'sparse_attention' is no object; it is one that zrt wrote, or none");
    model["sparse_attention"] = *sparse;
  }
  return model;
}

std::string hugging_face_name(const std::string& type, const std::string& parameter) {
  return spec_of(type).hugging_face.tensor_name(parameter);
}

std::optional<std::string> parameter_name(const OrderedJson& model, const std::string& tensor) {
  if (model.at("tied") && tensor == "lm_head.weight") return std::nullopt;
  return spec_of(model.at("type")).hugging_face.parameter_name(model, tensor);
}

}  // namespace zrt::models
