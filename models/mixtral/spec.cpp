// Mixtral (Jiang et al., "Mixtral of Experts", 2024): Mistral's layers with experts in place of the MLP, of which each
// token takes the two likeliest.
#include "models/llama/experts_json.h"
#include "models/llama/features.h"

namespace zrt::models {
namespace {

// The first as published; the small one reads bytes: 256 values and the end of a document.
std::vector<Preset> mixtral_presets() {
  return {llama_preset("mixtral-8x7b", {32, 4096, 32, 8, 14336, 32768, 32000}),
          llama_preset("mixtral-tiny", {2, 64, 4, 2, 96, 32, 257}, {{"experts.number", 4}})};
}

constexpr ExpertNamesInFiles mixtral_names{"block_sparse_moe", {"w1", "w3", "w2"}};

std::string mixtral_tensor_name(const std::string& parameter) {
  return expert_tensor_name(mixtral_names, parameter);
}

std::string mixtral_parameter_name(const std::string& tensor) {
  return expert_parameter_name(mixtral_names, tensor);
}

// An expert's width is the only one; the router's gates add up to 1.
LlamaFeature mixtral_experts() {
  LlamaFeature feature = experts({.number = 8, .top_k = 2});
  feature.file_keys.push_back({"router_jitter_noise", "[0, null]", ConfigKey::Otherwise::warn});
  feature.file_sizes = {{"experts.number", "num_local_experts", 8, false, "num_experts"},
                        {"experts.top_k", "num_experts_per_tok", 2}};
  feature.write = [](const OrderedJson& model, OrderedJson&) {
    check_written_experts(model, {{"every", 1}, {"norm_topk_prob", true}, {"ffn", model.at("ffn")}});
  };
  feature.parse = [](const OrderedJson&, const std::string&, OrderedJson& model) {
    model["experts"]["ffn"] = model.at("ffn"), model["experts"]["norm_topk_prob"] = true;
  };
  return feature;
}

}  // namespace

const ModelSpec& mixtral_spec() {
  static const LlamaType type(
      {.type = "mixtral",
       .architectures = {"MixtralForCausalLM"},
       .defaults = {.rope_theta = 1e6},
       .file_sizes = {32, 4096, 32, 8, 0, 14336, 131072, 32000},
       .file_epsilon = 1e-5,
       .features = {silu_gate(), plain_positions(1e6), window_of_all_layers(0), mixtral_experts()},
       .presets = mixtral_presets(),
       .tensor_name = mixtral_tensor_name,
       .fused = fused_experts,
       .expert_place = place_of_expert,
       .parameter_name = mixtral_parameter_name});
  return type.spec();
}

}  // namespace zrt::models
