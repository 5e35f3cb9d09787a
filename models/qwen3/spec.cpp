// Qwen3, dense (Qwen team, "Qwen3 Technical Report", 2025): Llama's layers with a norm of each head's queries and keys,
// heads of 128 elements whatever the hidden size, and slow rotary positions.
#include "models/hugging_face.h"
#include "models/llama/sizes.h"

namespace zrt::models {
namespace {

MakeModel read_qwen3(core::keys::Values& values, const ModelSizes& sizes) {
  LlamaConfig config = read_llama_sizes(values, sizes, {.head_dim = 128, .rope_theta = 1e6, .rms_norm_eps = 1e-6});
  config.head_norms = true;
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

void write_qwen3(const OrderedJson& model, OrderedJson& config) {
  write_llama_sizes(model, config);
  config["attention_bias"] = false;
  config["use_sliding_window"] = false;
}

void parse_qwen3(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  only(config, "use_sliding_window", false, name);
  const auto layers = config.find("layer_types");
  for (const OrderedJson& layer : layers == config.end() ? OrderedJson::array() : *layers) {
    if (layer.dump() == R"("full_attention")") continue;
    refuse_config(name, "'layer_types' has " + layer.dump() + "; legal is \"full_attention\"");
  }
  const std::string rope = rope_type_of(rope_scaling_of(config), name);
  if (rope != "default") refuse_config(name, "'rope_scaling' is of type '" + rope + "'; legal is default");
  parse_llama_sizes(config, name, model);
  if (!model.contains("head_dim")) model["head_dim"] = 128;  // transformers' default
}

}  // namespace

const ModelSpec& qwen3_spec() {
  static const core::keys::Section sections[] = {
      {"model", "", core::keys::Parser::own, nullptr, llama_size_keys()},
  };
  static const ModelSpec spec{
      .type = "qwen3",
      .sections = sections,
      .tied = false,
      .presets = qwen3_presets(),
      .read = read_qwen3,
      .hugging_face = {"Qwen3ForCausalLM", write_qwen3, parse_qwen3,
                       [](const std::string& parameter) { return parameter; }, llama_parameter_name}};
  return spec;
}

}  // namespace zrt::models
