// Mistral (Jiang et al., "Mistral 7B", 2023): Llama's layers, of which every one may attend to a window.
#include "models/llama/features.h"

namespace zrt::models {
namespace {

// The first as published with version 0.1, whose window later versions leave out. The small one reads bytes.
std::vector<Preset> mistral_presets() {
  return {llama_preset("mistral-7b", {32, 4096, 32, 8, 14336, 32768, 32000}, {{"sliding_window", 4096}}),
          llama_preset("mistral-tiny", {2, 64, 4, 2, 176, 32, 257}, {{"sliding_window", 12}})};
}

}  // namespace

const ModelSpec& mistral_spec() {
  static const LlamaType type({.type = "mistral",
                               .architectures = {"MistralForCausalLM"},
                               .file_sizes = {32, 4096, 32, 8, 0, 14336, 131072, 32000},
                               .features = {silu_gate(), plain_positions(), window_of_all_layers(4096)},
                               .presets = mistral_presets()});
  return type.spec();
}

}  // namespace zrt::models
