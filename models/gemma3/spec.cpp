// Gemma 3, the text model (Gemma Team, "Gemma 3 Technical Report", 2025): Gemma 2's layers with norms of each head's
// queries and keys in place of soft caps, five layers with a window to one without, and two bases of rotary positions.
#include "models/gemma/gemma.h"
#include "models/hugging_face.h"
#include "models/llama/hugging_face.h"
#include "models/llama/sizes.h"
#include "models/llama/windows.h"

namespace zrt::models {
namespace {

using namespace core::keys;

constexpr GemmaDefaults gemma3_defaults{.rope_theta = 1e6, .period = 6};

// Named as in Hugging Face's config.json.
constexpr Key gemma3_keys[] = {
    key("rope_local_base_freq", t_real | t_null, "null", between(2, 1e12), Effect::results,
        "As model.rope_theta, of layers with a window; null: 10000."),
};

MakeModel read_gemma3(Values& values, const ModelSizes& sizes) {
  LlamaConfig config = read_gemma_sizes(values, sizes, gemma3_defaults);
  if (values.is_null("model.rope_local_base_freq")) values.infer("model.rope_local_base_freq", 10000.0);
  config.window_rope_theta = values.real("model.rope_local_base_freq");
  config.head_norms = true;
  return [config] {
    Model model = make_llama(config);
    model.type = "gemma3_text";
    return model;
  };
}

// As published. The small one reads bytes.
std::vector<Preset> gemma3_presets() {
  const auto sized = [](const char* name, int64_t layers, int64_t hidden, int64_t ffn) {
    return Preset{name,
                  {{"layers", layers},
                   {"hidden", hidden},
                   {"heads", 4},
                   {"kv_heads", 1},
                   {"ffn", ffn},
                   {"sequence", 32768},
                   {"vocab", 262144},
                   {"sliding_window", 512}}};
  };
  return {sized("gemma3-270m", 18, 640, 2048),
          sized("gemma3-1b", 26, 1152, 6912),
          {"gemma3_text-tiny",
           {{"layers", 2},
            {"hidden", 64},
            {"heads", 4},
            {"kv_heads", 2},
            {"head_dim", 32},
            {"ffn", 176},
            {"sequence", 32},
            {"vocab", 257},
            {"sliding_window", 12},
            {"sliding_window_pattern", 2},
            {"query_pre_attn_scalar", 32}}}};
}

constexpr SizeKey gemma3_hf_sizes[] = {{"layers", "num_hidden_layers", 26},
                                       {"hidden", "hidden_size", 2304},
                                       {"heads", "num_attention_heads", 8},
                                       {"kv_heads", "num_key_value_heads", 4},
                                       {"head_dim", "head_dim", 256},
                                       {"ffn", "intermediate_size", 9216},
                                       {"sequence", "max_position_embeddings", 131072},
                                       {"vocab", "vocab_size", 262208}};
constexpr ConfigKey gemma3_hf_keys[] = {
    {"_sliding_window_pattern"},  // beside the list that was made of it
    {"attention_dropout", "[0, null]", ConfigKey::Otherwise::warn},
    {"attn_logit_softcapping"},
    {"cache_implementation"},  // of generation
    {"final_logit_softcapping"},
    {"hidden_activation", R"(["gelu_pytorch_tanh"])"},
    {"layer_types"},
    {"query_pre_attn_scalar"},
    {"rms_norm_eps"},
    {"rope_local_base_freq"},
    {"rope_parameters"},
    {"rope_scaling"},
    {"rope_theta"},
    {"sliding_window"},
    {"sliding_window_pattern"},
    {"use_bidirectional_attention", "[false, null]"},
};

void write_gemma3(const OrderedJson& model, OrderedJson& config) {
  write_gemma_keys(model, config);
  config["rope_theta"] = model.at("rope_theta");
  config["rope_local_base_freq"] = model.at("rope_local_base_freq");
}

// Rotary positions of one type of layer, which newer files describe apart. Reads the norm's epsilon into `model`, too.
double theta_of(const OrderedJson& config, const char* type, const char* key, double fallback, const std::string& name,
                OrderedJson& model) {
  OrderedJson one = without_layer_types(config);
  const auto parameters = config.find("rope_parameters");
  if (parameters != config.end() && parameters->is_object() && parameters->contains(type)) {
    one["rope_parameters"] = parameters->at(type);
    one.erase("rope_theta"), one.erase("rope_scaling");
    if (!one["rope_parameters"].is_object()) {
      refuse_config(name, "'rope_parameters." + std::string(type) + "' is " + one["rope_parameters"].dump() +
                              "; legal is an object");
    }
    if (!one["rope_parameters"].contains("rope_theta")) one["rope_parameters"]["rope_theta"] = fallback;
  } else {
    one["rope_theta"] = number(config, key, fallback, name);
    if (std::string_view(type) == "sliding_attention") one.erase("rope_scaling");
  }
  read_llama_keys(one, name, model, {"default"});
  return model.at("rope_theta").get<double>();
}

void parse_gemma3(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  read_gemma_keys(config, name, gemma3_defaults, model);
  model["rope_local_base_freq"] = theta_of(config, "sliding_attention", "rope_local_base_freq", 10000, name, model);
  model["rope_theta"] = theta_of(config, "full_attention", "rope_theta", gemma3_defaults.rope_theta, name, model);
}

}  // namespace

const ModelSpec& gemma3_text_spec() {
  static const Section sections[] = {
      {"model", "", Parser::own, nullptr, llama_size_keys()},
      {"model", "", Parser::own, nullptr, window_keys()},
      {"model", "", Parser::own, nullptr, gemma_keys()},
      {"model", "", Parser::own, nullptr, gemma3_keys},
  };
  static const ModelSpec spec{
      .type = "gemma3_text",
      .sections = sections,
      .tied = true,
      .presets = gemma3_presets(),
      .read = read_gemma3,
      .hugging_face = llama_form({"Gemma3ForCausalLM"}, gemma3_hf_sizes, gemma3_hf_keys, write_gemma3, parse_gemma3)};
  return spec;
}

}  // namespace zrt::models
