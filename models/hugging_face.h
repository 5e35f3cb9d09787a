// Hugging Face's names for models: config.json and tensors. What a type has of its own stands in its spec.
#pragma once
#include <optional>
#include <string>

#include "core/dtype.h"
#include "models/spec.h"

namespace zrt::models {

// config.json of a model given by its resolved section `model` (keys as "rope_scaling.factor"). Throws DataError for a
// type that Hugging Face does not have.
OrderedJson to_hugging_face(const OrderedJson& model, core::DType type);

// The section `model` that config.json describes. Throws DataError for an architecture, an activation or an option that
// zrt does not have, naming the key and what is legal.
OrderedJson from_hugging_face(const OrderedJson& config, const std::string& name);

// The file's name of our parameter.
std::string hugging_face_name(const std::string& type, const std::string& parameter);
// Our name of a file's tensor; nothing for what is no parameter of the model with this section.
std::optional<std::string> parameter_name(const OrderedJson& model, const std::string& tensor);

// For specs. All throw DataError with the file's name.
struct NamePair {
  const char *ours, *theirs;
};
[[noreturn]] void refuse_config(const std::string& name, const std::string& what);
int64_t required_size(const OrderedJson& config, const char* key, const std::string& name);  // 1 to 2^31
double number(const OrderedJson& config, const char* key, double fallback, const std::string& name);
std::string text(const OrderedJson& config, const char* key, const std::string& fallback, const std::string& name);
bool flag(const OrderedJson& config, const char* key, bool fallback, const std::string& name);
// An option that changes what the model computes, and the only value that zrt has.
void only(const OrderedJson& config, const char* key, const OrderedJson& legal, const std::string& name);

}  // namespace zrt::models
