// What types of models made of LlamaLayers share: their keys, how sizes are made of them, and their names at Hugging
// Face.
#pragma once
#include "models/spec.h"

namespace zrt::models {

std::span<const core::keys::Key> llama_size_keys();  // of the section "model"

// Where keys are left out.
struct LlamaDefaults {
  int64_t head_dim = 0;  // 0: model.hidden / model.heads
  double rope_theta = 10000, rms_norm_eps = 1e-5;
};
// For ModelSpec::read; what else a type has it fills in itself.
LlamaConfig read_llama_sizes(core::keys::Values& values, const ModelSizes& sizes, const LlamaDefaults& defaults);

// For HuggingFaceForm::write and read, all but what is said of rotary positions beside rope_theta.
void write_llama_sizes(const OrderedJson& model, OrderedJson& config);
void parse_llama_sizes(const OrderedJson& config, const std::string& name, OrderedJson& model);
// Of a config.json the stretching of rotary positions, if it has any, and the type of it: "default" for none.
OrderedJson rope_scaling_of(const OrderedJson& config);
std::string rope_type_of(const OrderedJson& scaling, const std::string& name);
std::optional<std::string> llama_parameter_name(const OrderedJson& model, const std::string& tensor);

}  // namespace zrt::models
