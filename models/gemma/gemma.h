// Shared by the types of Gemma: their keys, and the names of these at Hugging Face.
#pragma once
#include "models/spec.h"

namespace zrt::models {

std::span<const core::keys::Key> gemma_keys();  // of the section "model"

// These are the values of keys that are left out.
struct GemmaDefaults {
  double rope_theta = 10000;
  int64_t period = 2;                       // of layers that attend to all
  double attention_cap = 0, logit_cap = 0;  // 0: none
};
// For ModelSpec::read: everything but what Gemma 3 has of its own.
LlamaConfig read_gemma_sizes(core::keys::Values& values, const ModelSizes& sizes, const GemmaDefaults& defaults);

// For HuggingFaceForm::write and read: all keys but those of rotary positions.
void write_gemma_keys(const OrderedJson& model, OrderedJson& config);
void read_gemma_keys(const OrderedJson& config, const std::string& name, const GemmaDefaults& defaults,
                     OrderedJson& model);
// config.json as read_llama_keys() reads it: without layers' types, which are not all alike.
OrderedJson without_layer_types(const OrderedJson& config);

}  // namespace zrt::models
