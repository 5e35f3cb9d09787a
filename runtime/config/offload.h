// DeepSpeed's offload keys as rules of placement.
#pragma once
#include <vector>

#include "runtime/config/memory.h"
#include "runtime/config/values.h"

namespace zrt::runtime::configuration {

// Of zero_optimization.offload_optimizer and offload_param, and activation_checkpointing.cpu_checkpointing. Throws
// ConfigError for a device that is none, and for a stage at which DeepSpeed would not honour the request.
std::vector<PlacementRule> offload_rules(const Values& values, int stage);

}  // namespace zrt::runtime::configuration
