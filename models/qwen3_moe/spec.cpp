// Qwen3 with experts (Qwen team, "Qwen3 Technical Report", 2025): Qwen3's layers with experts in place of the MLP.
#include "models/experts_keys.h"
#include "models/hugging_face.h"
#include "models/llama/experts_json.h"
#include "models/llama/hugging_face.h"
#include "models/llama/rope_scaling.h"
#include "models/llama/sizes.h"

namespace zrt::models {
namespace {

MakeModel read_qwen3_moe(core::keys::Values& values, const ModelSizes& sizes) {
  LlamaConfig config = read_llama_sizes(values, sizes, {.head_dim = 128, .rope_theta = 1e6, .rms_norm_eps = 1e-6});
  config.head_norms = true;
  values.check([&] { config.rope_scaling = read_rope_scaling(values, sizes.sequence); });
  values.check([&] { config.experts = read_experts(values, {.number = 128, .ffn = config.ffn, .top_k = 8}); });
  return [config] {
    Model model = make_llama(config);
    model.type = "qwen3_moe";
    return model;
  };
}

// As published; `sequence` is that of the base models. The small one reads bytes: 256 values and the end of a document.
std::vector<Preset> qwen3_moe_presets() {
  const auto sized = [](const char* name, int64_t layers, int64_t hidden, int64_t heads, int64_t ffn, int64_t expert) {
    return Preset{name,
                  {{"layers", layers},
                   {"hidden", hidden},
                   {"heads", heads},
                   {"kv_heads", 4},
                   {"ffn", ffn},
                   {"sequence", 32768},
                   {"vocab", 151936},
                   {"experts.ffn", expert}}};
  };
  return {{"qwen3_moe-tiny",
           {{"layers", 2},
            {"hidden", 64},
            {"heads", 4},
            {"kv_heads", 2},
            {"head_dim", 32},
            {"ffn", 128},
            {"sequence", 32},
            {"vocab", 257},
            {"tied", true},
            {"experts.number", 8},
            {"experts.top_k", 2},
            {"experts.ffn", 48}}},
          sized("qwen3-30b-a3b", 48, 2048, 32, 6144, 768),
          sized("qwen3-235b-a22b", 94, 4096, 64, 12288, 1536)};
}

constexpr SizeKey qwen3_moe_hf_sizes[] = {{"layers", "num_hidden_layers", 24},
                                          {"hidden", "hidden_size", 2048},
                                          {"heads", "num_attention_heads", 32},
                                          {"kv_heads", "num_key_value_heads", 4, true},
                                          {"head_dim", "head_dim", 0, true},
                                          {"ffn", "intermediate_size", 6144},
                                          {"sequence", "max_position_embeddings", 32768},
                                          {"vocab", "vocab_size", 151936},
                                          {"experts.number", "num_experts", 128, false, "num_local_experts"},
                                          {"experts.ffn", "moe_intermediate_size", 768},
                                          {"experts.top_k", "num_experts_per_tok", 8},
                                          {"experts.every", "decoder_sparse_step", 1}};
constexpr ConfigKey qwen3_moe_hf_keys[] = {
    {"attention_bias", "[false, null]"},
    {"attention_dropout", "[0, null]", ConfigKey::Otherwise::warn},
    {"hidden_act", R"(["silu", "swish"])"},  // two names of one function
    {"layer_types"},
    {"max_window_layers"},  // of sliding windows, which are refused by the key below
    {"mlp_only_layers", "[[], null]"},
    {"norm_topk_prob"},
    {"output_router_logits", "[false, null]", ConfigKey::Otherwise::warn},
    {"rms_norm_eps"},
    {"rope_parameters"},
    {"rope_scaling"},
    {"rope_theta"},
    {"router_aux_loss_coef"},  // without output_router_logits nothing is added to the loss
    {"sliding_window"},
    {"use_sliding_window", "[false, null]"},
};

void write_qwen3_moe(const OrderedJson& model, OrderedJson& config) {
  write_llama_keys(model, config);
  check_written_experts(model);
  config["attention_bias"] = false;
  config["use_sliding_window"] = false;
  config["norm_topk_prob"] = model.at("experts.norm_topk_prob");
  config["mlp_only_layers"] = OrderedJson::array();
}

void parse_qwen3_moe(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  read_llama_keys(config, name, model);
  // The class's own rule; zrt's default is the width of the published models.
  if (!model.contains("head_dim")) {
    model["head_dim"] = model.at("hidden").get<int64_t>() / model.at("heads").get<int64_t>();
  }
  model["experts"]["norm_topk_prob"] = flag(config, "norm_topk_prob", false, name);
}

}  // namespace

const ModelSpec& qwen3_moe_spec() {
  static const core::keys::Section sections[] = {
      {"model", "", core::keys::Parser::own, nullptr, llama_size_keys()},
      {"model", "", core::keys::Parser::own, nullptr, rope_section_key()},
      {"model.rope_scaling", "", core::keys::Parser::own, nullptr, rope_scaling_keys()},
      {"model", "", core::keys::Parser::own, nullptr, experts_section_key()},
      {"model.experts", "", core::keys::Parser::own, nullptr, experts_keys()},
  };
  static const ModelSpec spec{
      .type = "qwen3_moe",
      .sections = sections,
      .tied = false,
      .presets = qwen3_moe_presets(),
      .read = read_qwen3_moe,
      .hugging_face = expert_form(llama_form({"Qwen3MoeForCausalLM"}, qwen3_moe_hf_sizes, qwen3_moe_hf_keys,
                                             write_qwen3_moe, parse_qwen3_moe))};
  return spec;
}

}  // namespace zrt::models
