// Gemma 2 (Gemma Team, "Gemma 2: Improving Open Language Models at a Practical Size", 2024): norms behind attention and
// MLP, too, GELU in the gate, soft caps, heads of 256 elements, and a window in every other layer.
#include "models/gemma/gemma.h"
#include "models/hugging_face.h"
#include "models/llama/hugging_face.h"
#include "models/llama/sizes.h"
#include "models/llama/windows.h"

namespace zrt::models {
namespace {

constexpr GemmaDefaults gemma2_defaults{.attention_cap = 50, .logit_cap = 30};

MakeModel read_gemma2(core::keys::Values& values, const ModelSizes& sizes) {
  const LlamaConfig config = read_gemma_sizes(values, sizes, gemma2_defaults);
  return [config] {
    Model model = make_llama(config);
    model.type = "gemma2";
    return model;
  };
}

// As published. The small one reads bytes.
std::vector<Preset> gemma2_presets() {
  const auto sized = [](const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t ffn) {
    return Preset{name,
                  {{"layers", layers},
                   {"hidden", hidden},
                   {"heads", heads},
                   {"kv_heads", heads / 2},
                   {"ffn", ffn},
                   {"sequence", 8192},
                   {"vocab", 256000}}};
  };
  return {sized("gemma2-2b", 26, 2304, 8, 9216),
          sized("gemma2-9b", 42, 3584, 16, 14336),
          {"gemma2-tiny",
           {{"layers", 2},
            {"hidden", 64},
            {"heads", 4},
            {"kv_heads", 2},
            {"head_dim", 32},
            {"ffn", 176},
            {"sequence", 32},
            {"vocab", 257},
            {"sliding_window", 12},
            {"query_pre_attn_scalar", 32}}}};
}

constexpr SizeKey gemma2_hf_sizes[] = {
    {"layers", "num_hidden_layers", 26},           {"hidden", "hidden_size", 2304}, {"heads", "num_attention_heads", 8},
    {"kv_heads", "num_key_value_heads", 4},        {"head_dim", "head_dim", 256},   {"ffn", "intermediate_size", 9216},
    {"sequence", "max_position_embeddings", 8192}, {"vocab", "vocab_size", 256000}};
constexpr ConfigKey gemma2_hf_keys[] = {
    {"attention_dropout", "[0, null]", ConfigKey::Otherwise::warn},
    {"attn_logit_softcapping"},
    {"cache_implementation"},  // of generation
    {"final_logit_softcapping"},
    {"hidden_act"},  // transformers reads the next one
    {"hidden_activation", R"(["gelu_pytorch_tanh"])"},
    {"layer_types"},
    {"query_pre_attn_scalar"},
    {"rms_norm_eps"},
    {"rope_parameters"},
    {"rope_scaling"},
    {"rope_theta"},
    {"sliding_window"},
    {"use_bidirectional_attention", "[false, null]"},
};

void write_gemma2(const OrderedJson& model, OrderedJson& config) {
  write_gemma_keys(model, config);
  config["rope_theta"] = model.at("rope_theta");
}

void parse_gemma2(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  read_gemma_keys(config, name, gemma2_defaults, model);
  read_llama_keys(without_layer_types(config), name, model, {"default"});
}

}  // namespace

const ModelSpec& gemma2_spec() {
  static const core::keys::Section sections[] = {
      {"model", "", core::keys::Parser::own, nullptr, llama_size_keys()},
      {"model", "", core::keys::Parser::own, nullptr, window_keys()},
      {"model", "", core::keys::Parser::own, nullptr, gemma_keys()},
  };
  static const ModelSpec spec{
      .type = "gemma2",
      .sections = sections,
      .tied = true,
      .presets = gemma2_presets(),
      .read = read_gemma2,
      .hugging_face = llama_form({"Gemma2ForCausalLM"}, gemma2_hf_sizes, gemma2_hf_keys, write_gemma2, parse_gemma2)};
  return spec;
}

}  // namespace zrt::models
