// Gemma 3, the text model (Gemma Team, "Gemma 3 Technical Report", 2025): Gemma 2's layers with norms of each head's
// queries and keys in place of soft caps, five layers with a window to one without, and two bases of rotary positions,
// of which those of layers without a window may be stretched.
#include "models/gemma/gemma.h"
#include "models/hugging_face.h"
#include "models/llama/features.h"
#include "models/llama/rope_json.h"

namespace zrt::models {
namespace {

using namespace core::keys;

constexpr double gemma3_theta = 1e6, gemma3_local_theta = 1e4;

// Named as in Hugging Face's config.json.
constexpr Key gemma3_keys[] = {
    key("rope_local_base_freq", t_real | t_null, "null", between(2, 1e12), Effect::results,
        "As model.rope_theta, of layers with a window, which are never stretched; null: 10000."),
};

// config.json as if one type of layer were all: newer files describe each type apart, older ones by keys of their own.
OrderedJson positions_of(const OrderedJson& config, const char* type, const char* key, double theta,
                         const std::string& name) {
  OrderedJson one = config;
  one["rope_theta"] = number(config, key, theta, name);
  const auto apart = config.find("rope_parameters");
  if (apart == config.end() || !apart->is_object() || !apart->contains(type)) return one;
  const OrderedJson& block = apart->at(type);
  if (!block.is_object()) {
    refuse_config(name, "'rope_parameters." + std::string(type) + "' is " + block.dump() + "; legal is an object");
  }
  one["rope_theta"] = number(block, "rope_theta", one["rope_theta"], name);
  one["rope_parameters"] = block;
  return one;
}

void parse_gemma3(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  OrderedJson windowed = positions_of(config, "sliding_attention", "rope_local_base_freq", gemma3_local_theta, name);
  windowed.erase("rope_scaling");  // which is of the other layers
  OrderedJson local{{"sequence", model.at("sequence")}};
  read_rope(windowed, name, local, {"default"});
  model["rope_local_base_freq"] = local.at("rope_theta");
  read_rope(positions_of(config, "full_attention", "rope_theta", gemma3_theta, name), name, model);
}

LlamaFeature two_positions() {
  LlamaFeature feature = stretched_positions();
  feature.sections.push_back({"model", "", Parser::own, nullptr, gemma3_keys});
  feature.file_keys.push_back({"rope_local_base_freq"});
  feature.read = [all = feature.read](Values& values, const ModelSizes& sizes, LlamaConfig& config) {
    all(values, sizes, config);
    if (values.is_null("model.rope_local_base_freq")) values.infer("model.rope_local_base_freq", gemma3_local_theta);
    config.window_rope_theta = values.real("model.rope_local_base_freq");
  };
  feature.write = [all = feature.write](const OrderedJson& model, OrderedJson& config) {
    all(model, config);
    config["rope_local_base_freq"] = model.at("rope_local_base_freq");
  };
  feature.parse = parse_gemma3;
  return feature;
}

// Sizes are as published. The small one reads bytes.
std::vector<Preset> gemma3_presets() {
  return {
      llama_preset("gemma3-270m", {18, 640, 4, 1, 2048, 32768, 262144}, {{"sliding_window", 512}}),
      llama_preset("gemma3-1b", {26, 1152, 4, 1, 6912, 32768, 262144}, {{"sliding_window", 512}}),
      llama_preset("gemma3-4b", {34, 2560, 8, 4, 10240, 131072, 262208},
                   {{"sliding_window", 1024}, {"rope_scaling.rope_type", "linear"}, {"rope_scaling.factor", 8.0}}),
      llama_preset(
          "gemma3_text-tiny", {2, 64, 4, 2, 176, 32, 257},
          {{"head_dim", 32}, {"sliding_window", 12}, {"sliding_window_pattern", 2}, {"query_pre_attn_scalar", 32}})};
}

}  // namespace

const ModelSpec& gemma3_text_spec() {
  static const LlamaType type(
      {.type = "gemma3_text",
       .architectures = {"Gemma3ForCausalLM"},
       .tied = true,
       .defaults = {.head_dim = 256, .rope_theta = gemma3_theta, .rms_norm_eps = 1e-6},
       .layers = {.head_norms = true, .gemma = true},
       .file_sizes = {26, 2304, 8, 4, 256, 9216, 131072, 262208, false},
       .features = {gemma_layers({.period = 6}), two_positions(),
                    file_keys({{"_sliding_window_pattern"}, {"sliding_window_pattern"}})},  // the first is the second's
       .presets = gemma3_presets()});
  return type.spec();
}

}  // namespace zrt::models
