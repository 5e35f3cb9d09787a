// The section `model.rope_scaling`, which types of models with Llama's rotary positions share.
#pragma once
#include <string_view>

#include "models/rope_scaling.h"
#include "models/spec.h"

namespace zrt::models {

std::span<const core::keys::Key> rope_section_key();   // of the section "model"
std::span<const core::keys::Key> rope_scaling_keys();  // of the section "model.rope_scaling"

// Says whether the rule of that rope_type reads a key of the section; none does where it has no rule.
bool rope_rule_reads(std::string_view rope_type, std::string_view key);

// Reads the section for ModelSpec::read. `sequence`: the model's.
RopeScaling read_rope_scaling(core::keys::Values& values, int64_t sequence);

}  // namespace zrt::models
