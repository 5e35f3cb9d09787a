// Qwen2 and Qwen2.5, dense (Qwen team, "Qwen2 Technical Report", 2024): Llama's layers with biases of queries, keys and
// values, and slow rotary positions.
#include "models/llama/features.h"

namespace zrt::models {
namespace {

// Sizes are as published, save that `sequence` is 32768 for all. The small one reads bytes: 256 values and the end of a
// document.
std::vector<Preset> qwen2_presets() {
  return {llama_preset("qwen2-tiny", {2, 64, 4, 2, 192, 32, 257}, {{"tied", true}}),
          llama_preset("qwen2.5-0.5b", {24, 896, 14, 2, 4864, 32768, 151936}, {{"tied", true}}),
          llama_preset("qwen2.5-1.5b", {28, 1536, 12, 2, 8960, 32768, 151936}, {{"tied", true}}),
          llama_preset("qwen2.5-3b", {36, 2048, 16, 2, 11008, 32768, 151936}, {{"tied", true}}),
          llama_preset("qwen2.5-7b", {28, 3584, 28, 4, 18944, 32768, 152064})};
}

}  // namespace

const ModelSpec& qwen2_spec() {
  static const LlamaType type({.type = "qwen2",
                               .architectures = {"Qwen2ForCausalLM"},
                               .defaults = {.rope_theta = 1e6, .rms_norm_eps = 1e-6},
                               .layers = {.qkv_biases = true},
                               .file_sizes = {32, 4096, 32, 32, 0, 22016, 32768, 151936},
                               .features = {silu_gate(), stretched_positions(), window_of_last_layers()},
                               .presets = qwen2_presets()});
  return type.spec();
}

}  // namespace zrt::models
