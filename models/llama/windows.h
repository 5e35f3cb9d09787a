// Layers with a window: the keys of types of models that have some, and their names at Hugging Face.
#pragma once
#include "models/spec.h"

namespace zrt::models {

std::span<const core::keys::Key> window_keys();  // of the section "model"

// For ModelSpec::read, where model.sliding_window is not null: sets the window. Refuses sparse attention beside it.
void read_window(const core::keys::Values& values, const ModelSizes& sizes, LlamaConfig& config);

// The period of config.json's list of layers' types, `fallback` where there is none or where it fits the list. Throws
// DataError for layers of other types, for another number of them, and for an order that no period has.
int64_t read_layer_types(const OrderedJson& config, int64_t layers, int64_t fallback, const std::string& name);

}  // namespace zrt::models
