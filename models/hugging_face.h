// Hugging Face's names for models: config.json and tensors. What a type has of its own stands in its spec.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "core/dtype.h"
#include "models/spec.h"

namespace zrt::models {

// config.json of a model given by its resolved section `model` (keys as "rope_scaling.factor"). Throws DataError for a
// type that Hugging Face does not have.
OrderedJson to_hugging_face(const OrderedJson& model, core::DType type);

// The section `model` that config.json describes; a key that it leaves out has transformers' default. Throws DataError
// for an architecture, an activation or an option that zrt does not have, naming the key and what is legal. `warn`, if
// there is one, hears of keys that zrt does not know.
OrderedJson from_hugging_face(const OrderedJson& config, const std::string& name,
                              const std::function<void(const std::string&)>& warn = {});

// The file's name of our parameter. `fused_experts`: in files that have one tensor for all experts of a layer, where
// the type has such.
std::string hugging_face_name(const std::string& type, const std::string& parameter, bool fused_experts = false);
// Says whether a weight of a linear layer is (in, out).
bool stores_inputs_first(const std::string& type);
// Its place in such files; nothing for what is of no expert, or of a type whose files have one layout.
std::optional<ExpertPlace> expert_place(const std::string& type, const std::string& parameter);
// Our name of a file's tensor; nothing for what the model with this section does not compute with.
std::optional<std::string> parameter_name(const OrderedJson& model, const std::string& tensor);
// The parameters that a file's tensor holds one behind the other, and its shape.
FusedTensor fused_tensor(const OrderedJson& model, const std::string& tensor);
// The other names, as parameter_name gives them, under which files of this model may hold parameters.
std::vector<SecondName> second_names(const OrderedJson& model);

// Specs call these. All throw DataError with the file's name.
[[noreturn]] void refuse_config(const std::string& name, const std::string& what);
int64_t positive_integer(const OrderedJson& config, const char* key, int64_t fallback,
                         const std::string& name);  // 1 to 2^31
double number(const OrderedJson& config, const char* key, double fallback, const std::string& name);
std::string text(const OrderedJson& config, const char* key, const std::string& fallback, const std::string& name);
bool flag(const OrderedJson& config, const char* key, bool fallback, const std::string& name);

}  // namespace zrt::models
