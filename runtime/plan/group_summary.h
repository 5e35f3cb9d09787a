// Says which parameters have which optimizer, decay and rate (parameter_groups), as `zrt plan` prints it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/plan/plan.h"

namespace zrt::runtime {

// A line for each group: "AdamW, weight decay 0, rate × 1: 50 tensors, 61440 elements: h.0.ln_1.weight, …". Empty where
// all parameters are alike.
std::string groups_text(const Plan& plan);
// [{"optimizer", "weight_decay", "lr_scale", "elements", "parameters": names}], always; of what is frozen the optimizer
// is null, and there is neither decay nor scale.
nlohmann::ordered_json groups_json(const Plan& plan);

}  // namespace zrt::runtime
