// The keys and tensors of models of Llama's layers with experts in Hugging Face's files.
#pragma once
#include <map>

#include "models/experts_keys.h"
#include "models/llama/variant.h"

namespace zrt::models {

// Names that files have for the part of a layer that experts are, and for an expert's gate, up and down.
struct ExpertNamesInFiles {
  const char* part;
  std::string_view matrices[3];
};
std::string expert_tensor_name(const ExpertNamesInFiles& names, const std::string& parameter);
std::string expert_parameter_name(const ExpertNamesInFiles& names, const std::string& tensor);

// Files may have all experts of a layer in two tensors, as transformers 5 holds them in memory: (experts, 2 · ffn,
// hidden) and (experts, hidden, ffn). These are HuggingFaceForm::fused and expert_place for them.
FusedTensor fused_experts(const OrderedJson& model, const std::string& tensor);
std::optional<ExpertPlace> place_of_expert(const std::string& parameter);

// The section model.experts, and the keys of config.json that every class with experts has.
LlamaFeature experts(const ExpertDefaults& defaults);

// Throws DataError, for HuggingFaceForm::write, where `model` has prototypes, or another value of a key than those that
// the class has.
void check_written_experts(const OrderedJson& model, const std::map<std::string, OrderedJson>& only = {});

}  // namespace zrt::models
