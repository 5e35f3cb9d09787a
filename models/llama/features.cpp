#include "models/llama/features.h"

#include <fmt/format.h>

#include "models/hugging_face.h"
#include "models/llama/rope_json.h"
#include "models/llama/rope_scaling.h"
#include "models/llama/windows.h"

namespace zrt::models {
namespace {

using namespace core::keys;

// One of the places says the base.
bool says_base(const OrderedJson& config) {
  const auto in = [&](const char* block) {
    const auto found = config.find(block);
    return found != config.end() && found->is_object() && found->contains("rope_theta");
  };
  return config.contains("rope_theta") || in("rope_parameters") || in("rope_scaling");
}

LlamaFeature rotary_positions(const std::vector<std::string_view>& rope_types, double file_base = 10000) {
  return {.file_keys = {{"rope_parameters"}, {"rope_scaling"}, {"rope_theta"}},
          .write = write_rope,
          .parse = [rope_types, file_base](const OrderedJson& config, const std::string& name, OrderedJson& model) {
            OrderedJson stated = config;
            if (!says_base(config)) stated["rope_theta"] = file_base;
            read_rope(stated, name, model, rope_types);
          }};
}

// A number of layers, which may be none.
int64_t layers_in(const OrderedJson& config, const char* key, int64_t fallback, const std::string& name) {
  const auto found = config.find(key);
  if (found == config.end()) return fallback;
  if (*found == 0) return 0;
  return positive_integer(config, key, fallback, name);
}

void read_last_windows(Values& values, const ModelSizes& sizes, LlamaConfig& config) {
  const char* first = "model.max_window_layers";
  const bool said = !values.is_null(first);
  if (said) config.windows.first = values.integer(first);
  if (!values.is_null("model.sliding_window")) {
    read_window(values, sizes, config);
    if (!said) values.infer(first, 0);
  } else if (said) {
    values.check(
        [&] { refuse(values.at(first), "has no effect without model.sliding_window. Set that, or remove this."); });
  }
}

void write_last_windows(const OrderedJson& model, OrderedJson& config) {
  const OrderedJson window = model.value("sliding_window", OrderedJson());
  config["use_sliding_window"] = !window.is_null();
  if (window.is_null()) return;
  config["sliding_window"] = window;
  config["max_window_layers"] = model.at("max_window_layers");
}

void parse_last_windows(const OrderedJson& config, const std::string& name, OrderedJson& model) {
  const auto found = config.find("use_sliding_window"), window = config.find("sliding_window");
  const bool said = found != config.end() && !found->is_null() && flag(config, "use_sliding_window", false, name);
  if (!said || (window != config.end() && window->is_null())) return check_full_attention(config, name, model);
  model["sliding_window"] = positive_integer(config, "sliding_window", 4096, name);
  const int64_t first = layers_in(config, "max_window_layers", 28, name);
  model["max_window_layers"] = read_first_window(config, model.at("layers"), first, name);
}

}  // namespace

LlamaFeature silu_gate() {
  return {.file_keys = {{"hidden_act", R"(["silu", "swish"])"}},  // two names of one function
          .write = [](const OrderedJson&, OrderedJson& config) { config["hidden_act"] = "silu"; }};
}

LlamaFeature plain_positions(double file_base) {
  return rotary_positions({"default"}, file_base);
}

LlamaFeature stretched_positions() {
  LlamaFeature feature = rotary_positions(all_rope_types);
  feature.sections = {{"model", "", Parser::own, nullptr, rope_section_key()},
                      {"model.rope_scaling", "", Parser::own, nullptr, rope_scaling_keys()}};
  feature.read = [](Values& values, const ModelSizes& sizes, LlamaConfig& config) {
    values.check([&] { config.rope_scaling = read_rope_scaling(values, sizes.sequence); });
  };
  return feature;
}

LlamaFeature full_attention() {
  return {.file_keys = {{"layer_types"}}, .parse = check_full_attention};
}

LlamaFeature window_of_all_layers(int64_t file_window) {
  return {.sections = {{"model", "", Parser::own, nullptr, window_keys()}},
          .file_keys = {{"sliding_window"}},
          .read =
              [](Values& values, const ModelSizes& sizes, LlamaConfig& config) {
                if (!values.is_null("model.sliding_window")) read_window(values, sizes, config);
              },
          .write = [](const OrderedJson& model,
                      OrderedJson& config) { config["sliding_window"] = model.value("sliding_window", OrderedJson()); },
          .parse =
              [file_window](const OrderedJson& config, const std::string& name, OrderedJson& model) {
                const auto window = config.find("sliding_window");
                const bool none = window == config.end() ? file_window == 0 : window->is_null();
                model["sliding_window"] =
                    none ? OrderedJson() : OrderedJson(positive_integer(config, "sliding_window", file_window, name));
              }};
}

LlamaFeature window_of_last_layers() {
  return {.sections = {{"model", "", Parser::own, nullptr, window_keys()},
                       {"model", "", Parser::own, nullptr, first_window_keys()}},
          .file_keys = {{"layer_types"}, {"max_window_layers"}, {"sliding_window"}, {"use_sliding_window"}},
          .read = read_last_windows,
          .write = write_last_windows,
          .parse = parse_last_windows};
}

LlamaFeature file_keys(std::vector<ConfigKey> keys, OrderedJson written) {
  return {.file_keys = std::move(keys),
          .write = [written = std::move(written)](const OrderedJson&, OrderedJson& config) { config.update(written); }};
}

}  // namespace zrt::models
