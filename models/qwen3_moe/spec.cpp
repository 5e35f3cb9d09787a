// Qwen3 with experts (Qwen team, "Qwen3 Technical Report", 2025): Qwen3's layers with experts in place of the MLP.
#include "models/hugging_face.h"
#include "models/llama/experts_json.h"
#include "models/llama/features.h"
#include "models/llama/windows.h"

namespace zrt::models {
namespace {

// Sizes are as published; `sequence` is that of the base models. The small one reads bytes: 256 values and the end of a
// document.
std::vector<Preset> qwen3_moe_presets() {
  return {llama_preset(
              "qwen3_moe-tiny", {2, 64, 4, 2, 128, 32, 257},
              {{"head_dim", 32}, {"tied", true}, {"experts.number", 8}, {"experts.top_k", 2}, {"experts.ffn", 48}}),
          llama_preset("qwen3-30b-a3b", {48, 2048, 32, 4, 6144, 32768, 151936}, {{"experts.ffn", 768}}),
          llama_preset("qwen3-235b-a22b", {94, 4096, 64, 4, 12288, 32768, 151936}, {{"experts.ffn", 1536}})};
}

// The class gives all layers a window or none; other files' max_window_layers means nothing to it.
LlamaFeature switched_window() {
  LlamaFeature feature = window_of_all_layers(0);
  feature.file_keys = {{"layer_types"}, {"max_window_layers"}, {"sliding_window"}, {"use_sliding_window"}};
  feature.write = [](const OrderedJson& model, OrderedJson& config) {
    const OrderedJson window = model.value("sliding_window", OrderedJson());
    config["use_sliding_window"] = !window.is_null(), config["sliding_window"] = window;
  };
  feature.parse = [parse = feature.parse](const OrderedJson& config, const std::string& name, OrderedJson& model) {
    const auto use = config.find("use_sliding_window");
    const bool said = use != config.end() && !use->is_null();
    if (said && flag(config, "use_sliding_window", false, name)) return parse(config, name, model);
    check_full_attention(config, name, model);
  };
  return feature;
}

LlamaFeature qwen3_experts() {
  LlamaFeature feature = experts({.number = 128, .top_k = 8});
  feature.file_keys.insert(feature.file_keys.end(), {{"mlp_only_layers", "[[], null]"}, {"norm_topk_prob"}});
  feature.file_sizes = {{"experts.number", "num_experts", 128, false, "num_local_experts"},
                        {"experts.ffn", "moe_intermediate_size", 768},
                        {"experts.top_k", "num_experts_per_tok", 8},
                        {"experts.every", "decoder_sparse_step", 1}};
  feature.write = [](const OrderedJson& model, OrderedJson& config) {
    check_written_experts(model);
    config["norm_topk_prob"] = model.at("experts.norm_topk_prob");
    config["mlp_only_layers"] = OrderedJson::array();
  };
  feature.parse = [](const OrderedJson& config, const std::string& name, OrderedJson& model) {
    model["experts"]["norm_topk_prob"] = flag(config, "norm_topk_prob", false, name);
    if (model.contains("head_dim")) return;
    // The class's own rule; zrt's default is the width of the published models.
    model["head_dim"] = model.at("hidden").get<int64_t>() / model.at("heads").get<int64_t>();
  };
  return feature;
}

}  // namespace

const ModelSpec& qwen3_moe_spec() {
  static const LlamaType type(
      {.type = "qwen3_moe",
       .architectures = {"Qwen3MoeForCausalLM"},
       .defaults = {.head_dim = 128, .rope_theta = 1e6, .rms_norm_eps = 1e-6},
       .layers = {.head_norms = true},
       .file_sizes = {24, 2048, 32, 4, 0, 6144, 32768, 151936},
       .features = {silu_gate(), stretched_positions(), file_keys({}, {{"attention_bias", false}}), switched_window(),
                    qwen3_experts()},
       .presets = qwen3_moe_presets(),
       .fused = fused_experts,
       .expert_place = place_of_expert});
  return type.spec();
}

}  // namespace zrt::models
