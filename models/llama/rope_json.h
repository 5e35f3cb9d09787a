// Rotary positions in Hugging Face's config.json: the base of their frequencies, and how they are stretched.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/hugging_face_form.h"

namespace zrt::models {

inline const std::vector<std::string_view> all_rope_types{"default", "llama3", "linear", "dynamic", "yarn"};

// Writes rope_theta and, where it is stretched, rope_scaling of a section `model`.
void write_rope(const OrderedJson& model, OrderedJson& config);
// `model` has its sequence. Throws DataError for what zrt does not compute, and for two places that differ. `legal`
// lists the rope_types that the type has.
void read_rope(const OrderedJson& config, const std::string& name, OrderedJson& model,
               const std::vector<std::string_view>& legal = all_rope_types);

}  // namespace zrt::models
