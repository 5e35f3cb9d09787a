// Mixtral (Jiang et al., "Mixtral of Experts", 2024): Mistral's layers with experts in place of the MLP, of which each
// token takes the two likeliest.
#include <algorithm>

#include "models/experts_keys.h"
#include "models/hugging_face.h"
#include "models/llama/experts_json.h"
#include "models/llama/hugging_face.h"
#include "models/llama/sizes.h"
#include "models/llama/windows.h"

namespace zrt::models {
namespace {

MakeModel read_mixtral(core::keys::Values& values, const ModelSizes& sizes) {
  LlamaConfig config = read_llama_sizes(values, sizes, {.rope_theta = 1e6});
  if (!values.is_null("model.sliding_window")) read_window(values, sizes, config);
  values.check([&] { config.experts = read_experts(values, {.number = 8, .ffn = config.ffn, .top_k = 2}); });
  return [config] {
    Model model = make_llama(config);
    model.type = "mixtral";
    return model;
  };
}

// The first as published; the small one reads bytes: 256 values and the end of a document.
std::vector<Preset> mixtral_presets() {
  return {{"mixtral-8x7b",
           {{"layers", 32},
            {"hidden", 4096},
            {"heads", 32},
            {"kv_heads", 8},
            {"ffn", 14336},
            {"sequence", 32768},
            {"vocab", 32000}}},
          {"mixtral-tiny",
           {{"layers", 2},
            {"hidden", 64},
            {"heads", 4},
            {"kv_heads", 2},
            {"ffn", 96},
            {"sequence", 32},
            {"vocab", 257},
            {"experts.number", 4}}}};
}

constexpr ExpertNamesInFiles mixtral_names{"block_sparse_moe", {"w1", "w3", "w2"}};

std::string mixtral_tensor_name(const std::string& parameter) {
  return expert_tensor_name(mixtral_names, parameter);
}

std::optional<std::string> mixtral_parameter_name(const OrderedJson&, const std::string& tensor) {
  return expert_parameter_name(mixtral_names, tensor);
}

constexpr const char* mixtral_rope_blocks[] = {"rope_scaling", "rope_parameters"};

constexpr SizeKey mixtral_hf_sizes[] = {{"layers", "num_hidden_layers", 32},
                                        {"hidden", "hidden_size", 4096},
                                        {"heads", "num_attention_heads", 32},
                                        {"kv_heads", "num_key_value_heads", 8, true},
                                        {"head_dim", "head_dim", 0, true},
                                        {"ffn", "intermediate_size", 14336},
                                        {"sequence", "max_position_embeddings", 131072},
                                        {"vocab", "vocab_size", 32000},
                                        {"experts.number", "num_local_experts", 8, false, "num_experts"},
                                        {"experts.top_k", "num_experts_per_tok", 2}};
constexpr ConfigKey mixtral_hf_keys[] = {
    {"attention_dropout", "[0, null]", ConfigKey::Otherwise::warn},
    {"hidden_act", R"(["silu", "swish"])"},  // two names of one function
    {"output_router_logits", "[false, null]", ConfigKey::Otherwise::warn},
    {"rms_norm_eps"},
    {"rope_parameters"},
    {"rope_scaling"},
    {"rope_theta"},
    {"router_aux_loss_coef"},  // without the key before the last, nothing is added to the loss
    {"router_jitter_noise", "[0, null]", ConfigKey::Otherwise::warn},
    {"sliding_window"},
};

void write_mixtral(const OrderedJson& model, OrderedJson& config) {
  write_llama_keys(model, config);
  config["sliding_window"] = model.at("sliding_window");
  check_written_experts(model, {{"every", 1}, {"norm_topk_prob", true}, {"ffn", model.at("ffn")}});
}

void parse_mixtral(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  OrderedJson stated = config;
  const bool says_base =
      std::any_of(std::begin(mixtral_rope_blocks), std::end(mixtral_rope_blocks), [&](const char* block) {
        return config.contains(block) && config.at(block).is_object() && config.at(block).contains("rope_theta");
      });
  if (!config.contains("rope_theta") && !says_base) stated["rope_theta"] = 1e6;  // the class's own base
  if (!config.contains("rms_norm_eps")) stated["rms_norm_eps"] = 1e-5;
  read_llama_keys(stated, name, model, {"default"});
  const auto window = config.find("sliding_window");
  const bool all = window == config.end() || window->is_null();
  model["sliding_window"] = all ? OrderedJson() : OrderedJson(positive_integer(config, "sliding_window", 4096, name));
  model["experts"]["ffn"] = model.at("ffn");
}

}  // namespace

const ModelSpec& mixtral_spec() {
  static const core::keys::Section sections[] = {
      {"model", "", core::keys::Parser::own, nullptr, llama_size_keys()},
      {"model", "", core::keys::Parser::own, nullptr, window_keys()},
      {"model", "", core::keys::Parser::own, nullptr, experts_section_key()},
      {"model.experts", "", core::keys::Parser::own, nullptr, experts_keys()},
  };
  static const ModelSpec spec = [] {
    ModelSpec made{.type = "mixtral",
                   .sections = sections,
                   .tied = false,
                   .presets = mixtral_presets(),
                   .read = read_mixtral,
                   .hugging_face = expert_form(llama_form({"MixtralForCausalLM"}, mixtral_hf_sizes, mixtral_hf_keys,
                                                          write_mixtral, parse_mixtral))};
    made.hugging_face.tensor_name = mixtral_tensor_name, made.hugging_face.parameter_name = mixtral_parameter_name;
    return made;
  }();
  return spec;
}

}  // namespace zrt::models
