// Qwen2 and Qwen2.5, dense (Qwen team, "Qwen2 Technical Report", 2024): Llama's layers with biases of queries, keys and
// values, and slow rotary positions.
#include "models/llama/hugging_face.h"
#include "models/llama/rope_scaling.h"
#include "models/llama/sizes.h"

namespace zrt::models {
namespace {

MakeModel read_qwen2(core::keys::Values& values, const ModelSizes& sizes) {
  LlamaConfig config = read_llama_sizes(values, sizes, {.rope_theta = 1e6, .rms_norm_eps = 1e-6});
  config.qkv_biases = true;
  values.check([&] { config.rope_scaling = read_rope_scaling(values, sizes.sequence); });
  return [config] {
    Model model = make_llama(config);
    model.type = "qwen2";
    return model;
  };
}

// As published, save that `sequence` is 32768 for all. The small one reads bytes: 256 values and the end of a document.
std::vector<Preset> qwen2_presets() {
  const auto sized = [](const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads, int64_t ffn,
                        int64_t sequence, int64_t vocab, bool tied) {
    Preset preset{name,
                  {{"layers", layers},
                   {"hidden", hidden},
                   {"heads", heads},
                   {"kv_heads", kv_heads},
                   {"ffn", ffn},
                   {"sequence", sequence},
                   {"vocab", vocab}}};
    if (tied) preset.keys["tied"] = true;
    return preset;
  };
  return {sized("qwen2-tiny", 2, 64, 4, 2, 192, 32, 257, true),
          sized("qwen2.5-0.5b", 24, 896, 14, 2, 4864, 32768, 151936, true),
          sized("qwen2.5-1.5b", 28, 1536, 12, 2, 8960, 32768, 151936, true),
          sized("qwen2.5-3b", 36, 2048, 16, 2, 11008, 32768, 151936, true),
          sized("qwen2.5-7b", 28, 3584, 28, 4, 18944, 32768, 152064, false)};
}

constexpr SizeKey qwen2_hf_sizes[] = {{"layers", "num_hidden_layers", 32},
                                      {"hidden", "hidden_size", 4096},
                                      {"heads", "num_attention_heads", 32},
                                      {"kv_heads", "num_key_value_heads", 32, true},
                                      {"head_dim", "head_dim", 0, true},
                                      {"ffn", "intermediate_size", 22016},
                                      {"sequence", "max_position_embeddings", 32768},
                                      {"vocab", "vocab_size", 151936}};
constexpr ConfigKey qwen2_hf_keys[] = {
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

void write_qwen2(const OrderedJson& model, OrderedJson& config) {
  write_llama_keys(model, config);
  config["use_sliding_window"] = false;
}

}  // namespace

const ModelSpec& qwen2_spec() {
  static const core::keys::Section sections[] = {
      {"model", "", core::keys::Parser::own, nullptr, llama_size_keys()},
      {"model", "", core::keys::Parser::own, nullptr, rope_section_key()},
      {"model.rope_scaling", "", core::keys::Parser::own, nullptr, rope_scaling_keys()},
  };
  static const ModelSpec spec{
      .type = "qwen2",
      .sections = sections,
      .tied = false,
      .presets = qwen2_presets(),
      .read = read_qwen2,
      .hugging_face = llama_form({"Qwen2ForCausalLM"}, qwen2_hf_sizes, qwen2_hf_keys, write_qwen2, read_llama_keys)};
  return spec;
}

}  // namespace zrt::models
