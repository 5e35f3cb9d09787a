#include "models/llama/windows.h"

#include <fmt/format.h>

#include "models/hugging_face.h"

namespace zrt::models {
namespace {

using namespace core::keys;

constexpr Key keys_of_windows[] = {
    key("sliding_window", t_int | t_null, "null", between(1, 1 << 24), Effect::results,
        "Tokens up to its own that a query sees in a layer with a window; null: of Mistral all, of Gemma 4096."),
};

}  // namespace

std::span<const Key> window_keys() {
  return keys_of_windows;
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
  const auto types = config.find("layer_types");
  if (types == config.end() || types->is_null()) return fallback;
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
  const auto fits = [&](int64_t period) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      if (windowed[static_cast<size_t>(layer)] != WindowLayers{1, period}.has(layer)) return false;
    }
    return true;
  };
  if (fits(fallback)) return fallback;
  for (int64_t period = 0; period <= layers; ++period) {
    if (fits(period)) return period;
  }
  refuse_config(name, fmt::format("'layer_types' is {}; zrt has layers with a window of which every so many, the last "
                                  "of each group, one has \"full_attention\"",
                                  types->dump()));
}

}  // namespace zrt::models
