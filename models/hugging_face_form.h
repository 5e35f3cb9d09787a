// The names that a type of model has at Hugging Face, in config.json and of tensors: tables that its spec fills.
#pragma once
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace zrt::models {

// A file's own order of keys is kept.
using OrderedJson = nlohmann::ordered_json;

// A size in config.json.
struct SizeKey {
  const char *ours, *theirs;
  int64_t fallback;                  // where the file leaves it out: transformers' default; 0: the type's own rule
  bool null_is_left_out = false;     // null means the type's own rule, too
  const char* other_name = nullptr;  // by which the file may call it as well
};
// Another key of config.json that the type knows.
struct ConfigKey {
  enum class Otherwise { refuse, warn };
  const char* name;
  // A JSON list of the values with which zrt computes the same as transformers. Empty: any value, since the type reads
  // the key or it does not change what the model computes.
  const char* legal = "";
  Otherwise otherwise = Otherwise::refuse;
};
// Another name under which files hold a parameter, in tied or in untied models. Where files hold both, copies in tied
// models must be equal; an untied one reads the parameter's own tensor.
struct SecondName {
  const char *name, *parameter;
  bool tied;
};
// A parameter that a file's tensor holds with others: so many of its rows.
struct FusedPart {
  std::string parameter;
  int64_t rows;
};
// A file's tensor that holds parameters one behind the other: matrices of as many columns as it has in its last
// dimension. Without parts the tensor is one parameter, or none.
struct FusedTensor {
  std::vector<FusedPart> parts{};
  std::vector<int64_t> shape{};
};
// The place of an expert's parameter in files that have one tensor for all experts of a layer.
struct ExpertPlace {
  std::string tensor;
  int64_t expert;  // counted from 0
};

// The type's names at Hugging Face. A type that it does not have leaves all empty.
struct HuggingFaceForm {
  std::vector<const char*> architectures;  // the classes whose weights the type can be; an export names the first
  std::span<const SizeKey> sizes;
  std::span<const ConfigKey> keys;  // beside the sizes and the keys of every type (models/hugging_face_keys.cpp)
  std::span<const SecondName> second_names;
  // Writes the type's other keys; `model` has a resolved section, with keys as "rope_scaling.factor".
  std::function<void(const OrderedJson& model, OrderedJson& config)> write{};
  // Reads the other keys of config.json, the file `name`, into the section, which has the sizes. Throws DataError
  // for an option that the type does not have, naming the key and what is legal.
  std::function<void(const OrderedJson& config, const std::string& name, OrderedJson& model)> read{};
  bool inputs_first = false;  // weights of linear layers are (in, out), as in GPT-2's Conv1D
  std::string (*tensor_name)(const std::string& parameter) = nullptr;
  // The parameters of the model with this section that a file's tensor holds one behind the other. tensor_name gives
  // them all that tensor's name, or expert_place does. Without the function no tensor holds several.
  FusedTensor (*fused)(const OrderedJson& model, const std::string& tensor) = nullptr;
  // Types whose files have two layouts of experts: tensor_name tells one, and this the other, in which all that is of
  // no expert has zrt's own names. Nothing for such parameters.
  std::optional<ExpertPlace> (*expert_place)(const std::string& parameter) = nullptr;
  // Returns nothing for what the model with this section does not compute with: causal masks, rotary frequencies, a
  // pooler.
  std::function<std::optional<std::string>(const OrderedJson& model, const std::string& tensor)> parameter_name{};
};

}  // namespace zrt::models
