#include "runtime/train/checkpoint/hugging_face.h"

#include <fmt/format.h>

#include "core/error.h"

namespace zrt::runtime::checkpoint {
namespace {

struct Key {
  const char *ours, *theirs;
};
constexpr Key gpt2_keys[] = {{"layers", "n_layer"},
                             {"hidden", "n_embd"},
                             {"heads", "n_head"},
                             {"sequence", "n_positions"},
                             {"vocab", "vocab_size"}};
constexpr Key llama_keys[] = {{"layers", "num_hidden_layers"},  {"hidden", "hidden_size"},
                              {"heads", "num_attention_heads"}, {"kv_heads", "num_key_value_heads"},
                              {"ffn", "intermediate_size"},     {"sequence", "max_position_embeddings"},
                              {"vocab", "vocab_size"},          {"rms_norm_eps", "rms_norm_eps"}};
constexpr const char* scaling_keys[] = {"rope_type", "factor", "low_freq_factor", "high_freq_factor",
                                        "original_max_position_embeddings"};
constexpr std::string_view gpt2_prefix = "transformer.";

[[noreturn]] void refuse_folder(const std::string& name, const std::string& what) {
  throw core::DataError(fmt::format("{}: {}", name, what));
}

const Json& require(const Json& config, const char* key, const std::string& name) {
  const auto found = config.find(key);
  if (found == config.end() || !found->is_number())
    refuse_folder(name, fmt::format("'{}' is missing or no number", key));
  return *found;
}

// An option that changes what the model computes, and the only value that zrt has.
void only(const Json& config, const char* key, const Json& legal, const std::string& name) {
  const auto found = config.find(key);
  if (found == config.end() || *found == legal || (found->is_null() && legal == false)) return;
  refuse_folder(name, fmt::format("'{}' is {}; zrt's model has {} only", key, found->dump(), legal.dump()));
}

Json scaling_of(const Json& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_object()) return *found;
  }
  return Json::object();
}

Json llama_model(const Json& config, const std::string& name) {
  only(config, "hidden_act", "silu", name);
  only(config, "attention_bias", false, name);
  only(config, "mlp_bias", false, name);
  only(config, "pretraining_tp", 1, name);
  Json model{{"type", "llama"}};
  for (const Key& key : llama_keys) {
    if (key.ours == std::string_view("kv_heads") && !config.contains(key.theirs)) continue;
    if (key.ours == std::string_view("rms_norm_eps") && !config.contains(key.theirs)) {
      model[key.ours] = 1e-6;  // transformers' default, not zrt's
      continue;
    }
    model[key.ours] = require(config, key.theirs, name);
  }
  if (config.contains("head_dim") && config["head_dim"].is_number_integer() &&
      config["head_dim"].get<int64_t>() * model["heads"].get<int64_t>() != model["hidden"].get<int64_t>()) {
    refuse_folder(name, "'head_dim' is not hidden_size / num_attention_heads; zrt's model has no other");
  }
  const Json scaling = scaling_of(config);
  const auto theta = scaling.contains("rope_theta") ? scaling["rope_theta"] : config.value("rope_theta", Json(10000.0));
  if (!theta.is_number()) refuse_folder(name, "'rope_theta' is no number");
  model["rope_theta"] = theta;
  const std::string type = scaling.value("rope_type", scaling.value("type", std::string("default")));
  if (type == "default") return model;
  if (type != "llama3")
    refuse_folder(name, fmt::format("'rope_scaling' is of type '{}'; legal are default and llama3", type));
  model["rope_scaling"]["rope_type"] = "llama3";
  for (const char* key : scaling_keys) {
    if (scaling.contains(key)) model["rope_scaling"][key] = scaling[key];
  }
  return model;
}

Json gpt2_model(const Json& config, const std::string& name) {
  only(config, "activation_function", "gelu_new", name);
  only(config, "n_inner", nullptr, name);
  only(config, "scale_attn_by_inverse_layer_idx", false, name);
  only(config, "reorder_and_upcast_attn", false, name);
  only(config, "scale_attn_weights", true, name);
  only(config, "layer_norm_epsilon", 1e-5, name);
  Json model{{"type", "gpt2"}};
  for (const Key& key : gpt2_keys) model[key.ours] = require(config, key.theirs, name);
  return model;
}

}  // namespace

Json to_hugging_face(const Json& model, core::DType type) {
  const std::string kind = model.value("type", "");
  const bool llama = kind == "llama";
  if (!llama && kind != "gpt2") refuse_folder("model.type", fmt::format("'{}' has no form at Hugging Face", kind));
  Json config{{"architectures", {llama ? "LlamaForCausalLM" : "GPT2LMHeadModel"}}, {"model_type", kind}};
  const auto copy = [&](const Key& key) { config[key.theirs] = model.at(key.ours); };
  if (llama) {
    for (const Key& key : llama_keys) copy(key);
    config["hidden_act"] = "silu";
    config["rope_theta"] = model.at("rope_theta");
    if (model.value("rope_scaling.rope_type", "default") == "llama3") {
      for (const char* key : scaling_keys) config["rope_scaling"][key] = model.at(std::string("rope_scaling.") + key);
    }
  } else {
    for (const Key& key : gpt2_keys) copy(key);
    config["activation_function"] = "gelu_new";
    config["layer_norm_epsilon"] = 1e-5;
    for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) config[key] = model.value("dropout", 0.0);
  }
  config["tie_word_embeddings"] = model.at("tied");
  // Their defaults are ids of the published tokenizers.
  config["bos_token_id"] = config["eos_token_id"] = nullptr;
  config["torch_dtype"] = type == core::DType::bf16 ? "bfloat16" : type == core::DType::f16 ? "float16" : "float32";
  return config;
}

Json from_hugging_face(const Json& config, const std::string& name) {
  if (!config.is_object()) refuse_folder(name, "is no JSON object");
  const std::string type = config.value("model_type", "");
  if (type != "gpt2" && type != "llama") {
    refuse_folder(name, fmt::format("'model_type' is '{}'; zrt imports gpt2 and llama", type));
  }
  Json model = type == "llama" ? llama_model(config, name) : gpt2_model(config, name);
  model["tied"] = config.value("tie_word_embeddings", type == "gpt2");
  return model;
}

std::string hugging_face_name(const std::string& type, const std::string& parameter) {
  if (type != "gpt2" || parameter == "lm_head.weight") return parameter;
  return std::string(gpt2_prefix) + parameter;
}

std::optional<std::string> parameter_name(const std::string& type, bool tied, const std::string& tensor) {
  if (tied && tensor == "lm_head.weight") return std::nullopt;
  if (type == "llama") return tensor.ends_with("rotary_emb.inv_freq") ? std::nullopt : std::optional(tensor);
  std::string name = tensor;
  if (name.rfind(gpt2_prefix, 0) == 0) name.erase(0, gpt2_prefix.size());
  if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) return std::nullopt;
  return name;
}

}  // namespace zrt::runtime::checkpoint
