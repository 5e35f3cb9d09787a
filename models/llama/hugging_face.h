// The names at Hugging Face that types of models of Llama's layers share.
#pragma once
#include "models/llama/rope_json.h"
#include "models/spec.h"

namespace zrt::models {

// For HuggingFaceForm::write and read: the norm's epsilon and rotary positions. Reading refuses layers of other than
// full attention, and rope_types beside those that the type has.
void write_llama_keys(const OrderedJson& model, OrderedJson& config);
void read_llama_keys(const OrderedJson& config, const std::string& name, OrderedJson& model);
void read_llama_keys(const OrderedJson& config, const std::string& name, OrderedJson& model,
                     const std::vector<std::string_view>& rope_types);

HuggingFaceForm llama_form(std::vector<const char*> architectures, std::span<const SizeKey> sizes,
                           std::span<const ConfigKey> keys, decltype(HuggingFaceForm::write) write,
                           decltype(HuggingFaceForm::read) read);

}  // namespace zrt::models
