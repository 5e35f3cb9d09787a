#include "models/gemma/gemma.h"

#include "models/hugging_face.h"
#include "models/llama/windows.h"

namespace zrt::models {
namespace {

using namespace core::keys;

// Named and meant as in Hugging Face's config.json; there null is no cap, here that is 0.
constexpr Key keys_of_gemma[] = {
    key("sliding_window_pattern", t_int | t_null, "null", between(0, 100000), Effect::results,
        "Every so many layers the last one attends to all tokens, the others to a window; 0: none does, 1: all do; "
        "null: 2 of Gemma 2, 6 of Gemma 3."),
    key("query_pre_attn_scalar", t_int | t_null, "null", between(1, 1 << 20), Effect::results,
        "Scores of attention are divided by the root of this; null: 256."),
    key("attn_logit_softcapping", t_real | t_null, "null", between(0, 1e6), Effect::results,
        "Soft cap of the scores of attention, cap · tanh(score / cap); 0: none; null: 50 of Gemma 2, 0 of Gemma 3."),
    key("final_logit_softcapping", t_real | t_null, "null", between(0, 1e6), Effect::results,
        "Soft cap of the logits, alike; 0: none; null: 30 of Gemma 2, 0 of Gemma 3."),
};

constexpr const char* caps[] = {"attn_logit_softcapping", "final_logit_softcapping"};

void read_gemma(Values& values, const ModelSizes& sizes, const GemmaDefaults& defaults, LlamaConfig& config) {
  const auto open = [&](const char* key, const nlohmann::json& fallback) {
    if (values.is_null(key)) values.infer(key, fallback);
  };
  open("model.sliding_window", 4096);
  open("model.sliding_window_pattern", defaults.period);
  open("model.query_pre_attn_scalar", 256);
  open("model.attn_logit_softcapping", defaults.attention_cap);
  open("model.final_logit_softcapping", defaults.logit_cap);
  read_window(values, sizes, config);
  config.windows.period = values.integer("model.sliding_window_pattern");
  config.query_scalar = static_cast<double>(values.integer("model.query_pre_attn_scalar"));
  config.attention_cap = static_cast<float>(values.real("model.attn_logit_softcapping"));
  config.logit_cap = static_cast<float>(values.real("model.final_logit_softcapping"));
}

void write_gemma(const OrderedJson& model, OrderedJson& config) {
  config["hidden_activation"] = "gelu_pytorch_tanh";
  config["attention_bias"] = false;
  config["query_pre_attn_scalar"] = model.at("query_pre_attn_scalar");
  config["sliding_window"] = model.at("sliding_window");
  const WindowLayers windows{.window = 1, .period = model.at("sliding_window_pattern")};
  for (int64_t layer = 0; layer < model.at("layers").get<int64_t>(); ++layer) {
    config["layer_types"].push_back(windows.has(layer) ? "sliding_attention" : "full_attention");
  }
  for (const char* cap : caps) {
    config[cap] = model.at(cap) == 0 ? OrderedJson() : OrderedJson(model.at(cap));
  }
}

void parse_gemma(const OrderedJson& config, const std::string& name, const GemmaDefaults& defaults,
                 OrderedJson& model) {
  model["sliding_window"] = positive_integer(config, "sliding_window", 4096, name);
  int64_t period = defaults.period;
  if (config.contains("sliding_window_pattern")) {
    period = positive_integer(config, "sliding_window_pattern", period, name);
  }
  model["sliding_window_pattern"] = read_layer_types(config, model.at("layers"), period, name);
  model["query_pre_attn_scalar"] = positive_integer(config, "query_pre_attn_scalar", 256, name);
  const double fallbacks[] = {defaults.attention_cap, defaults.logit_cap};
  for (size_t i = 0; i < std::size(caps); ++i) {
    const auto cap = config.find(caps[i]);
    const bool none = cap != config.end() && cap->is_null();
    model[caps[i]] = none ? 0.0 : number(config, caps[i], fallbacks[i], name);
  }
}

}  // namespace

LlamaFeature gemma_layers(const GemmaDefaults& defaults) {
  return {.sections = {{"model", "", Parser::own, nullptr, window_keys()},
                       {"model", "", Parser::own, nullptr, keys_of_gemma}},
          .file_keys = {{"attn_logit_softcapping"},
                        {"cache_implementation"},  // of generation
                        {"final_logit_softcapping"},
                        {"hidden_activation", R"(["gelu_pytorch_tanh"])"},
                        {"layer_types"},
                        {"query_pre_attn_scalar"},
                        {"sliding_window"},
                        {"use_bidirectional_attention", "[false, null]"}},
          .read = [defaults](Values& values, const ModelSizes& sizes,
                             LlamaConfig& config) { read_gemma(values, sizes, defaults, config); },
          .write = write_gemma,
          .parse = [defaults](const OrderedJson& config, const std::string& name,
                              OrderedJson& model) { parse_gemma(config, name, defaults, model); }};
}

}  // namespace zrt::models
