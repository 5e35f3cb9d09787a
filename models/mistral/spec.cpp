// Mistral (Jiang et al., "Mistral 7B", 2023): Llama's layers, of which every one may attend to a window.
#include "models/hugging_face.h"
#include "models/llama/hugging_face.h"
#include "models/llama/sizes.h"
#include "models/llama/windows.h"

namespace zrt::models {
namespace {

MakeModel read_mistral(core::keys::Values& values, const ModelSizes& sizes) {
  LlamaConfig config = read_llama_sizes(values, sizes, {});
  if (!values.is_null("model.sliding_window")) read_window(values, sizes, config);
  return [config] {
    Model model = make_llama(config);
    model.type = "mistral";
    return model;
  };
}

// The first as published with version 0.1, whose window later versions leave out. The small one reads bytes.
std::vector<Preset> mistral_presets() {
  return {{"mistral-7b",
           {{"layers", 32},
            {"hidden", 4096},
            {"heads", 32},
            {"kv_heads", 8},
            {"ffn", 14336},
            {"sequence", 32768},
            {"vocab", 32000},
            {"sliding_window", 4096}}},
          {"mistral-tiny",
           {{"layers", 2},
            {"hidden", 64},
            {"heads", 4},
            {"kv_heads", 2},
            {"ffn", 176},
            {"sequence", 32},
            {"vocab", 257},
            {"sliding_window", 12}}}};
}

constexpr SizeKey mistral_hf_sizes[] = {{"layers", "num_hidden_layers", 32},
                                        {"hidden", "hidden_size", 4096},
                                        {"heads", "num_attention_heads", 32},
                                        {"kv_heads", "num_key_value_heads", 8, true},
                                        {"head_dim", "head_dim", 0, true},
                                        {"ffn", "intermediate_size", 14336},
                                        {"sequence", "max_position_embeddings", 131072},
                                        {"vocab", "vocab_size", 32000}};
constexpr ConfigKey mistral_hf_keys[] = {
    {"attention_dropout", "[0, null]", ConfigKey::Otherwise::warn},
    {"hidden_act", R"(["silu", "swish"])"},  // two names of one function
    {"rms_norm_eps"},
    {"rope_parameters"},
    {"rope_scaling"},
    {"rope_theta"},
    {"sliding_window"},
};

void write_mistral(const OrderedJson& model, OrderedJson& config) {
  write_llama_keys(model, config);
  config["sliding_window"] = model.at("sliding_window");
}

void parse_mistral(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  read_llama_keys(config, name, model, {"default"});
  const auto window = config.find("sliding_window");
  const bool all = window != config.end() && window->is_null();
  model["sliding_window"] = all ? OrderedJson() : OrderedJson(positive_integer(config, "sliding_window", 4096, name));
}

}  // namespace

const ModelSpec& mistral_spec() {
  static const core::keys::Section sections[] = {
      {"model", "", core::keys::Parser::own, nullptr, llama_size_keys()},
      {"model", "", core::keys::Parser::own, nullptr, window_keys()},
  };
  static const ModelSpec spec{.type = "mistral",
                              .sections = sections,
                              .tied = false,
                              .presets = mistral_presets(),
                              .read = read_mistral,
                              .hugging_face = llama_form({"MistralForCausalLM"}, mistral_hf_sizes, mistral_hf_keys,
                                                         write_mistral, parse_mistral)};
  return spec;
}

}  // namespace zrt::models
