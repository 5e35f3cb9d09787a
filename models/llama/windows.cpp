#include "models/llama/windows.h"

#include <fmt/format.h>

#include "models/hugging_face.h"

namespace zrt::models {
namespace {

using namespace core::keys;

constexpr Key keys_of_windows[] = {
    key("sliding_window", t_int | t_null, "null", between(1, 1 << 24), Effect::results,
        "Tokens up to its own that a query sees in a layer with a window; null: all, of Gemma 4096."),
};
constexpr Key keys_of_first_windows[] = {
    key("max_window_layers", t_int | t_null, "null", between(0, 100000), Effect::results,
        "So many layers in front attend to all tokens, those behind them to model.sliding_window; null: 0."),
};

[[noreturn]] void refuse_types(const std::string& name, const OrderedJson& types, const char* legal) {
  refuse_config(name,
                fmt::format("'layer_types' is {}; zrt has layers with a window of which {}", types.dump(), legal));
}

// Says of each layer whether it has a window; nothing where there is no list.
std::optional<std::vector<bool>> windowed_layers(const OrderedJson& config, int64_t layers, const std::string& name) {
  const auto types = config.find("layer_types");
  if (types == config.end() || types->is_null()) return {};
  if (!types->is_array()) refuse_config(name, fmt::format("'layer_types' is {}; legal is a list", types->dump()));
  std::vector<bool> windowed;
  for (const OrderedJson& type : *types) {
    if (type != "sliding_attention" && type != "full_attention") {
      refuse_config(name, fmt::format("'layer_types' has {}; legal are \"sliding_attention\" and \"full_attention\"",
                                      type.dump()));
    }
    windowed.push_back(type == "sliding_attention");
  }
  if (static_cast<int64_t>(windowed.size()) != layers) {
    refuse_config(name,
                  fmt::format("'layer_types' has {} entries, but 'num_hidden_layers' is {}; correct the wrong one",
                              windowed.size(), layers));
  }
  return windowed;
}

bool fits(const std::vector<bool>& windowed, const WindowLayers& windows) {
  for (size_t layer = 0; layer < windowed.size(); ++layer) {
    if (windowed[layer] != windows.has(static_cast<int64_t>(layer))) return false;
  }
  return true;
}

}  // namespace

std::span<const Key> window_keys() {
  return keys_of_windows;
}

std::span<const Key> first_window_keys() {
  return keys_of_first_windows;
}

void read_window(const Values& values, const ModelSizes& sizes, LlamaConfig& config) {
  const std::string path = "model.sliding_window";
  config.windows.window = values.integer(path);
  values.check([&] {
    if (!sizes.sparse.pattern.sparse()) return;
    refuse(values.at(path),
           "says what its layers attend to, and so does the section sparse_attention. Remove that section, or set "
           "model.sliding_window to model.sequence for layers that attend to all.");
  });
}

int64_t read_layer_types(const OrderedJson& config, int64_t layers, int64_t fallback, const std::string& name) {
  const auto windowed = windowed_layers(config, layers, name);
  if (!windowed || fits(*windowed, {.window = 1, .period = fallback})) return fallback;
  for (int64_t period = 0; period <= layers; ++period) {
    if (fits(*windowed, {.window = 1, .period = period})) return period;
  }
  refuse_types(name, config.at("layer_types"), "every so many, the last of each group, one has \"full_attention\"");
}

int64_t read_first_window(const OrderedJson& config, int64_t layers, int64_t fallback, const std::string& name) {
  const auto windowed = windowed_layers(config, layers, name);
  if (!windowed || fits(*windowed, {.window = 1, .first = fallback})) return fallback;
  for (int64_t first = 0; first <= layers; ++first) {
    if (fits(*windowed, {.window = 1, .first = first})) return first;
  }
  refuse_types(name, config.at("layer_types"), "all that have \"full_attention\" are in front of the others");
}

void check_full_attention(const OrderedJson& config, const std::string& name, const OrderedJson& model) {
  const auto windowed = windowed_layers(config, model.at("layers"), name);
  if (!windowed || fits(*windowed, {})) return;
  refuse_config(name, fmt::format("'layer_types' is {}, but the file has no window that is in use; legal are layers of "
                                  "\"full_attention\" only",
                                  config.at("layer_types").dump()));
}

}  // namespace zrt::models
