// The part of memory.json that a plan and a measured run share.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/program/memory_plan.h"

namespace zrt::runtime {

// One tier of a rank; `measured` is null in a plan. A tier without an arena has the two peaks only.
nlohmann::ordered_json tier_json(const TierPlan& plan, std::optional<uint64_t> measured);

}  // namespace zrt::runtime
