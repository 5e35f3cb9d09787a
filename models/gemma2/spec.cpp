// Gemma 2 (Gemma Team, "Gemma 2: Improving Open Language Models at a Practical Size", 2024): norms behind attention and
// MLP, too, GELU in the gate, soft caps, heads of 256 elements, and a window in every other layer.
#include "models/gemma/gemma.h"
#include "models/llama/features.h"

namespace zrt::models {
namespace {

// Sizes are as published. The small one reads bytes.
std::vector<Preset> gemma2_presets() {
  return {llama_preset("gemma2-2b", {26, 2304, 8, 4, 9216, 8192, 256000}),
          llama_preset("gemma2-9b", {42, 3584, 16, 8, 14336, 8192, 256000}),
          llama_preset("gemma2-tiny", {2, 64, 4, 2, 176, 32, 257},
                       {{"head_dim", 32}, {"sliding_window", 12}, {"query_pre_attn_scalar", 32}})};
}

}  // namespace

const ModelSpec& gemma2_spec() {
  static const LlamaType type({.type = "gemma2",
                               .architectures = {"Gemma2ForCausalLM"},
                               .tied = true,
                               .defaults = {.head_dim = 256, .rms_norm_eps = 1e-6},
                               .layers = {.gemma = true},
                               .file_sizes = {26, 2304, 8, 4, 256, 9216, 8192, 256000, false},
                               .features = {gemma_layers({.attention_cap = 50, .logit_cap = 30}), plain_positions(),
                                            file_keys({{"hidden_act"}})},  // transformers reads hidden_activation
                               .presets = gemma2_presets()});
  return type.spec();
}

}  // namespace zrt::models
