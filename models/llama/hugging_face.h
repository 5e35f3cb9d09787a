// The names at Hugging Face that types of models of Llama's layers share.
#pragma once
#include "models/spec.h"

namespace zrt::models {

// For HuggingFaceForm::write and read: the norm's epsilon and rotary positions. Reading refuses layers of other than
// full attention.
void write_llama_keys(const OrderedJson& model, OrderedJson& config);
void read_llama_keys(const OrderedJson& config, const std::string& name, OrderedJson& model);

HuggingFaceForm llama_form(std::vector<const char*> architectures, std::span<const SizeKey> sizes,
                           std::span<const ConfigKey> keys, decltype(HuggingFaceForm::write) write,
                           decltype(HuggingFaceForm::read) read);

}  // namespace zrt::models
