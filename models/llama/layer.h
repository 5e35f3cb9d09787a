// A Llama layer (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023): RMS norm before
// attention and before the MLP, rotary positions, heads of queries sharing heads of keys and values, SwiGLU, no biases,
// no dropout. Parameter names and shapes are Hugging Face's; linear weights are stored (out, in). With
// LlamaConfig::head_norms each head's queries and keys have an RMS norm in front of the rotation; with qkv_biases
// queries, keys and values have biases. With LlamaConfig::gemma norms stand behind attention and the MLP, too (Gemma
// Team, "Gemma 2", 2024), and GELU is in the gate.
#pragma once
#include <memory>

#include "models/model.h"

namespace zrt::models {

std::unique_ptr<Block> make_llama_layer(const LlamaConfig& config, int64_t index);

}  // namespace zrt::models
