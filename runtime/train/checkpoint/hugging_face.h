// Hugging Face's names for models: config.json and tensors. Ours are the same but for GPT-2's prefix.
#pragma once
#include <optional>
#include <string>

#include "core/dtype.h"
#include "runtime/train/checkpoint/strict_json.h"

namespace zrt::runtime::checkpoint {

// config.json of a model given by its resolved section `model` (keys as "rope_scaling.factor"). Throws DataError for a
// type that Hugging Face does not have.
Json to_hugging_face(const Json& model, core::DType type);

// The section `model` that config.json describes. Throws DataError for an architecture, an activation or an option that
// zrt does not have, naming the key and what is legal.
Json from_hugging_face(const Json& config, const std::string& name);

// The file's name of our parameter.
std::string hugging_face_name(const std::string& type, const std::string& parameter);
// Our name of a file's tensor; nothing for buffers that are no parameters (causal masks, rotary frequencies) and, with
// tied embeddings, for the head's copy of them.
std::optional<std::string> parameter_name(const std::string& type, bool tied, const std::string& tensor);

}  // namespace zrt::runtime::checkpoint
