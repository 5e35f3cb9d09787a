// Qwen3, dense (Qwen team, "Qwen3 Technical Report", 2025): Llama's layers with a norm of each head's queries and keys,
// heads of 128 elements whatever the hidden size, and slow rotary positions.
#include "models/llama/features.h"

namespace zrt::models {
namespace {

// Sizes are as published; `sequence` is that of the base models. The small one reads bytes: 256 values and the end of a
// document.
std::vector<Preset> qwen3_presets() {
  return {llama_preset("qwen3-tiny", {2, 64, 4, 2, 192, 32, 257}, {{"head_dim", 32}, {"tied", true}}),
          llama_preset("qwen3-0.6b", {28, 1024, 16, 8, 3072, 32768, 151936}, {{"tied", true}}),
          llama_preset("qwen3-1.7b", {28, 2048, 16, 8, 6144, 32768, 151936}, {{"tied", true}}),
          llama_preset("qwen3-4b", {36, 2560, 32, 8, 9728, 32768, 151936}, {{"tied", true}}),
          llama_preset("qwen3-8b", {36, 4096, 32, 8, 12288, 32768, 151936})};
}

}  // namespace

const ModelSpec& qwen3_spec() {
  static const LlamaType type({.type = "qwen3",
                               .architectures = {"Qwen3ForCausalLM"},
                               .defaults = {.head_dim = 128, .rope_theta = 1e6, .rms_norm_eps = 1e-6},
                               .layers = {.head_norms = true},
                               .file_sizes = {32, 4096, 32, 32, 128, 22016, 32768, 151936},
                               .features = {silu_gate(), stretched_positions(),
                                            file_keys({}, {{"attention_bias", false}}), window_of_last_layers()},
                               .presets = qwen3_presets()});
  return type.spec();
}

}  // namespace zrt::models
