// DeepSpeed's offload keys as rules of placement.
#pragma once
#include <vector>

#include "runtime/config/key_table.h"
#include "runtime/config/memory.h"

namespace zrt::runtime::configuration {

// Returns the rules of zero_optimization.offload_optimizer and offload_param, and of
// activation_checkpointing.cpu_checkpointing. Problems are a device that is none, and offload_optimizer at stage 0;
// offload_param below stage 3 gets a warning, as DeepSpeed ignores it there.
std::vector<PlacementRule> offload_rules(Values& values, int stage);

}  // namespace zrt::runtime::configuration
