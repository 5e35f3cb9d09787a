// Phi-3 and Phi-4 (Abdin et al., "Phi-3 Technical Report", 2024): Llama's layers, of which every one may attend to a
// window. Hugging Face's files hold queries, keys and values in one matrix, and the MLP's gate and up in another; zrt
// has each by itself, so that ranks share heads.
#include <array>

#include "models/llama/features.h"

namespace zrt::models {
namespace {

// Sizes are as published. The small one reads bytes: 256 values and the end of a document.
std::vector<Preset> phi3_presets() {
  return {llama_preset("phi3-tiny", {2, 64, 4, 2, 176, 32, 257}),
          llama_preset("phi-3-mini", {32, 3072, 32, 32, 8192, 4096, 32064}, {{"sliding_window", 2047}}),
          llama_preset("phi-4", {40, 5120, 40, 10, 17920, 16384, 100352}, {{"rope_theta", 250000}})};
}

// A matrix of the files, and the parameters whose rows it holds one behind the other.
struct Fused {
  const char* theirs;
  std::array<const char*, 3> ours;
};
constexpr Fused fused_names[] = {
    {".self_attn.qkv_proj.weight",
     {".self_attn.q_proj.weight", ".self_attn.k_proj.weight", ".self_attn.v_proj.weight"}},
    {".mlp.gate_up_proj.weight", {".mlp.gate_proj.weight", ".mlp.up_proj.weight"}},
};

std::string phi3_tensor_name(const std::string& parameter) {
  for (const Fused& fused : fused_names) {
    for (const char* ours : fused.ours) {
      if (ours == nullptr || !parameter.ends_with(ours)) continue;
      return parameter.substr(0, parameter.size() - std::string_view(ours).size()) + fused.theirs;
    }
  }
  return parameter;
}

FusedTensor phi3_tensor(const OrderedJson& model, const std::string& tensor) {
  const auto size = [&](const char* key, int64_t otherwise) { return model.value(key, otherwise); };
  const int64_t heads = model.at("heads"), width = size("head_dim", model.at("hidden").get<int64_t>() / heads);
  const int64_t kv = size("kv_heads", heads) * width, ffn = model.at("ffn");
  const std::array<int64_t, 3> rows[] = {{heads * width, kv, kv}, {ffn, ffn, 0}};
  for (size_t i = 0; i < std::size(fused_names); ++i) {
    if (!tensor.ends_with(fused_names[i].theirs)) continue;
    const std::string layer = tensor.substr(0, tensor.size() - std::string_view(fused_names[i].theirs).size());
    FusedTensor made{.shape = {0, model.at("hidden")}};
    for (size_t part = 0; part < rows[i].size(); ++part) {
      if (rows[i][part] > 0) made.parts.push_back({layer + fused_names[i].ours[part], rows[i][part]});
      made.shape.front() += rows[i][part];
    }
    return made;
  }
  return {};
}

// Keys of config.json that change nothing, and one whose default is an id of the published tokenizer, which must be
// below vocab_size.
LlamaFeature phi3_keys() {
  constexpr auto warn = ConfigKey::Otherwise::warn;
  return file_keys({{"embd_pdrop", "[0, null]", warn},
                    {"original_max_position_embeddings"},  // of longrope, which is refused
                    {"resid_pdrop", "[0, null]", warn}},
                   {{"pad_token_id", nullptr}});
}

}  // namespace

const ModelSpec& phi3_spec() {
  static const LlamaType type({.type = "phi3",
                               .architectures = {"Phi3ForCausalLM"},
                               .file_sizes = {32, 3072, 32, 0, 0, 8192, 4096, 32064},
                               .file_epsilon = 1e-5,
                               .features = {silu_gate(), plain_positions(), window_of_all_layers(0), phi3_keys()},
                               .presets = phi3_presets(),
                               .tensor_name = phi3_tensor_name,
                               .fused = phi3_tensor});
  return type.spec();
}

}  // namespace zrt::models
