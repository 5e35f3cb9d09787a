// Shared by types of models of Llama's layers: their keys, and how sizes are made of them.
#pragma once
#include "models/spec.h"

namespace zrt::models {

std::span<const core::keys::Key> llama_size_keys();  // of the section "model"

// These are the values of keys that are left out.
struct LlamaDefaults {
  int64_t head_dim = 0;  // 0: model.hidden / model.heads
  double rope_theta = 10000, rms_norm_eps = 1e-5;
};
// Reads the sizes for ModelSpec::read. `switches`: how the type's layers differ from Llama's; the sizes in it are
// replaced.
LlamaConfig read_llama_sizes(core::keys::Values& values, const ModelSizes& sizes, const LlamaDefaults& defaults,
                             const LlamaConfig& switches);

}  // namespace zrt::models
