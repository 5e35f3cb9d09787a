// The section `model.experts`, which types of models with experts share.
#pragma once
#include "models/experts.h"
#include "models/spec.h"

namespace zrt::models {

std::span<const core::keys::Key> experts_section_key();  // of the section "model"
std::span<const core::keys::Key> experts_keys();         // of the section "model.experts"

// Stands where keys are null. number 0: the type has no experts, unless the key says how many.
struct ExpertDefaults {
  int64_t number = 0, ffn = 0, top_k = 1;
  int64_t layers = 0;   // of the model
  bool shared = false;  // whether there may be experts of all tokens
};
// Reads the section for ModelSpec::read. Refuses what does not go together.
Experts read_experts(core::keys::Values& values, const ExpertDefaults& defaults);

}  // namespace zrt::models
