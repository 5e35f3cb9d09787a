#include "models/llama/hugging_face.h"

#include <fmt/format.h>

#include "models/hugging_face.h"

namespace zrt::models {
namespace {

std::optional<std::string> llama_parameter_name(const OrderedJson&, const std::string& tensor) {
  return tensor.ends_with("rotary_emb.inv_freq") ? std::nullopt : std::optional(tensor);
}

constexpr SecondName llama_second_names[] = {{"lm_head.weight", "model.embed_tokens.weight", true}};

}  // namespace

void write_llama_keys(const OrderedJson& model, OrderedJson& config) {
  config["rms_norm_eps"] = model.at("rms_norm_eps");
  config["hidden_act"] = "silu";
  write_rope(model, config);
}

namespace {

// The list is harmless if every layer has full attention.
void check_layer_types(const OrderedJson& config, const std::string& name, const OrderedJson& model) {
  const auto types = config.find("layer_types");
  if (types == config.end() || types->is_null()) return;
  if (!types->is_array()) refuse_config(name, fmt::format("'layer_types' is {}; legal is a list", types->dump()));
  for (const OrderedJson& type : *types) {
    if (type.is_string() && type.get_ref<const std::string&>() == "full_attention") continue;
    refuse_config(name, fmt::format("'layer_types' has {}; zrt has layers of \"full_attention\" only", type.dump()));
  }
  const auto layers = model.at("layers").get<int64_t>();
  if (static_cast<int64_t>(types->size()) == layers) return;
  refuse_config(name, fmt::format("'layer_types' has {} entries, but 'num_hidden_layers' is {}; correct the wrong one",
                                  types->size(), layers));
}

}  // namespace

void read_llama_keys(const OrderedJson& config, const std::string& name, OrderedJson& model,
                     const std::vector<std::string_view>& rope_types) {
  check_layer_types(config, name, model);
  model["rms_norm_eps"] = number(config, "rms_norm_eps", 1e-6, name);  // transformers' default, not zrt's
  read_rope(config, name, model, rope_types);
}

void read_llama_keys(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  read_llama_keys(config, name, model, all_rope_types);
}

HuggingFaceForm llama_form(std::vector<const char*> architectures, std::span<const SizeKey> sizes,
                           std::span<const ConfigKey> keys, decltype(HuggingFaceForm::write) write,
                           decltype(HuggingFaceForm::read) read) {
  return {.architectures = std::move(architectures),
          .sizes = sizes,
          .keys = keys,
          .second_names = llama_second_names,
          .write = write,
          .read = read,
          .tensor_name = [](const std::string& parameter) { return parameter; },
          .parameter_name = llama_parameter_name};
}

}  // namespace zrt::models
