// Qwen3, dense (Qwen team, "Qwen3 Technical Report", 2025): Llama's layers with a norm of each head's queries and keys,
// heads of 128 elements whatever the hidden size, and slow rotary positions.
#include "models/llama/hugging_face.h"
#include "models/llama/rope_scaling.h"
#include "models/llama/sizes.h"

namespace zrt::models {
namespace {

MakeModel read_qwen3(core::keys::Values& values, const ModelSizes& sizes) {
  LlamaConfig config = read_llama_sizes(values, sizes, {.head_dim = 128, .rope_theta = 1e6, .rms_norm_eps = 1e-6});
  config.head_norms = true;
  values.check([&] { config.rope_scaling = read_rope_scaling(values, sizes.sequence); });
  return [config] {
    Model model = make_llama(config);
    model.type = "qwen3";
    return model;
  };
}

// As published; `sequence` is that of the base models. The small ones read bytes: 256 values and the end of a document.
std::vector<Preset> qwen3_presets() {
  const auto sized = [](const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t ffn, bool tied) {
    Preset preset{name,
                  {{"layers", layers},
                   {"hidden", hidden},
                   {"heads", heads},
                   {"kv_heads", 8},
                   {"ffn", ffn},
                   {"sequence", 32768},
                   {"vocab", 151936}}};
    if (tied) preset.keys["tied"] = true;
    return preset;
  };
  const auto small = [](const char* name, int64_t layers, int64_t hidden, int64_t head_dim, int64_t sequence) {
    return Preset{name,
                  {{"layers", layers},
                   {"hidden", hidden},
                   {"heads", 4},
                   {"kv_heads", 2},
                   {"head_dim", head_dim},
                   {"ffn", 3 * hidden},
                   {"sequence", sequence},
                   {"vocab", 257},
                   {"tied", true}}};
  };
  return {small("qwen3-tiny", 2, 64, 32, 32), sized("qwen3-0.6b", 28, 1024, 16, 3072, true),
          sized("qwen3-1.7b", 28, 2048, 16, 6144, true), sized("qwen3-4b", 36, 2560, 32, 9728, true),
          sized("qwen3-8b", 36, 4096, 32, 12288, false)};
}

constexpr SizeKey qwen3_hf_sizes[] = {{"layers", "num_hidden_layers", 32},
                                      {"hidden", "hidden_size", 4096},
                                      {"heads", "num_attention_heads", 32},
                                      {"kv_heads", "num_key_value_heads", 32, true},
                                      {"head_dim", "head_dim", 128},
                                      {"ffn", "intermediate_size", 22016},
                                      {"sequence", "max_position_embeddings", 32768},
                                      {"vocab", "vocab_size", 151936}};
constexpr ConfigKey qwen3_hf_keys[] = {
    {"attention_dropout", "[0, null]", ConfigKey::Otherwise::warn},
    {"hidden_act", R"(["silu", "swish"])"},  // two names of one function
    {"layer_types"},
    {"max_window_layers"},  // of sliding windows, which are refused by the key below
    {"rms_norm_eps"},
    {"rope_parameters"},
    {"rope_scaling"},
    {"rope_theta"},
    {"sliding_window"},
    {"use_sliding_window", "[false, null]"},
};

void write_qwen3(const OrderedJson& model, OrderedJson& config) {
  write_llama_keys(model, config);
  config["attention_bias"] = false;
  config["use_sliding_window"] = false;
}

}  // namespace

const ModelSpec& qwen3_spec() {
  static const core::keys::Section sections[] = {
      {"model", "", core::keys::Parser::own, nullptr, llama_size_keys()},
      {"model", "", core::keys::Parser::own, nullptr, rope_section_key()},
      {"model.rope_scaling", "", core::keys::Parser::own, nullptr, rope_scaling_keys()},
  };
  static const ModelSpec spec{
      .type = "qwen3",
      .sections = sections,
      .tied = false,
      .presets = qwen3_presets(),
      .read = read_qwen3,
      .hugging_face = llama_form({"Qwen3ForCausalLM"}, qwen3_hf_sizes, qwen3_hf_keys, write_qwen3, read_llama_keys)};
  return spec;
}

}  // namespace zrt::models
