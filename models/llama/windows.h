// Layers with a window: the keys of types of models that have some, and their names at Hugging Face.
#pragma once
#include "models/spec.h"

namespace zrt::models {

std::span<const core::keys::Key> window_keys();        // of the section "model"
std::span<const core::keys::Key> first_window_keys();  // the same, where layers before some have none

// Sets the window, for ModelSpec::read, where model.sliding_window is not null. Refuses sparse attention beside it.
void read_window(const core::keys::Values& values, const ModelSizes& sizes, LlamaConfig& config);

// These read config.json's list of layers' types, and throw DataError for layers of other types, for another number of
// them, and for an order that the model does not have. `fallback` stands where there is no list, or where it fits.
//
// Returns the period of layers that attend to all.
int64_t read_layer_types(const OrderedJson& config, int64_t layers, int64_t fallback, const std::string& name);
// Returns the first layer from which on all have a window.
int64_t read_first_window(const OrderedJson& config, int64_t layers, int64_t fallback, const std::string& name);
// Refuses layers of other than full attention.
void check_full_attention(const OrderedJson& config, const std::string& name, const OrderedJson& model);

}  // namespace zrt::models
