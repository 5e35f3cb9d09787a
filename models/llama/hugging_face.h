// The names at Hugging Face that types of models of Llama's layers share: tensors, and rotary positions.
#pragma once
#include "models/spec.h"

namespace zrt::models {

// Rotary positions as config.json describes them.
struct Rope {
  std::string type;  // "default": not stretched
  double theta = 10000;
  OrderedJson stretch = OrderedJson::object();  // the numbers of a stretch of type "llama3"
  std::string key;                              // that describes it
};

// For HuggingFaceForm::write and read: the norm's epsilon and rope_theta. The type reads and writes the stretch.
// Reading refuses layers of other than full attention.
void write_llama_keys(const OrderedJson& model, OrderedJson& config);
Rope read_llama_keys(const OrderedJson& config, const std::string& name, OrderedJson& model);
[[noreturn]] void refuse_rope_type(const Rope& rope, const char* legal, const std::string& name);

HuggingFaceForm llama_form(std::vector<const char*> architectures, std::span<const SizeKey> sizes,
                           std::span<const ConfigKey> keys, decltype(HuggingFaceForm::write) write,
                           decltype(HuggingFaceForm::read) read);

}  // namespace zrt::models
