// Shared by the types of Gemma: their keys, and the names of these at Hugging Face.
#pragma once
#include "models/llama/variant.h"

namespace zrt::models {

// These are the values of keys that are left out.
struct GemmaDefaults {
  int64_t period = 2;                       // of layers that attend to all
  double attention_cap = 0, logit_cap = 0;  // 0: none
};
// GELU in the gate, windows, caps and the scale of scores: everything but rotary positions.
LlamaFeature gemma_layers(const GemmaDefaults& defaults);

}  // namespace zrt::models
