// Llama 1 to 3 (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023) and what has its layers
// unchanged, as SmolLM.
#include "models/llama/features.h"

namespace zrt::models {
namespace {

// Sizes are as published, save that the sequence of llama-3.2-1b is what it was first trained on, not the 131,072 it
// was stretched to, and that llama-3b is a yardstick of benchmarks: the blocks of Llama 3.2 3B with the vocabulary of
// Llama 2. The small ones read bytes: 256 values and the end of a document.
std::vector<Preset> llama_presets() {
  return {
      llama_preset("llama-tiny", {2, 64, 4, 2, 176, 32, 257}),
      llama_preset("llama-10m", {6, 384, 6, 2, 1024, 256, 257}),
      llama_preset("llama-160m", {12, 768, 12, 12, 3072, 2048, 32000}, {{"rms_norm_eps", 1e-6}}),
      llama_preset("smollm-135m", {30, 576, 9, 3, 1536, 2048, 49152}, {{"tied", true}}),
      llama_preset("smollm2-135m", {30, 576, 9, 3, 1536, 8192, 49152}, {{"tied", true}, {"rope_theta", 1e5}}),
      llama_preset("tinyllama-1.1b", {22, 2048, 32, 4, 5632, 2048, 32000}),
      llama_preset("llama-3.2-1b", {16, 2048, 32, 8, 8192, 8192, 128256},
                   {{"tied", true},
                    {"rope_theta", 5e5},
                    {"rope_scaling.rope_type", "llama3"},
                    {"rope_scaling.factor", 32.0},
                    {"rope_scaling.low_freq_factor", 1.0},
                    {"rope_scaling.high_freq_factor", 4.0},
                    {"rope_scaling.original_max_position_embeddings", 8192}}),
      llama_preset("llama-3b", {28, 3072, 24, 8, 8192, 4096, 32000}),
      llama_preset("llama-2-7b", {32, 4096, 32, 32, 11008, 4096, 32000}),
      llama_preset("llama-3-8b", {32, 4096, 32, 8, 14336, 8192, 128256}, {{"rope_theta", 5e5}}),
  };
}

}  // namespace

const ModelSpec& llama_spec() {
  static const LlamaType type({.type = "llama",
                               .architectures = {"LlamaForCausalLM", "LLaMAForCausalLM"},
                               .file_sizes = {32, 4096, 32, 0, 0, 11008, 2048, 32000},
                               .features = {silu_gate(), stretched_positions(), full_attention(),
                                            file_keys({{"is_llama_config"}, {"pretraining_tp", "[1, null]"}})},
                               .presets = llama_presets()});
  return type.spec();
}

}  // namespace zrt::models
