// From the values of all keys to the structs of a Config: ranges, inference and relations between keys.
#pragma once
#include <limits>

#include "runtime/config/config.h"
#include "runtime/config/values.h"

namespace zrt::runtime::configuration {

// Fills every struct of the Config, on `ranks` ranks; 0 takes the number the batch triple implies. `name` is the
// fallback of run.name. Records what it infers in `values`. Throws ConfigError.
Config build_config(Values& values, int ranks, const std::string& name);

inline constexpr double largest_rate = 1e6;  // any larger learning rate is a mistake
inline constexpr double infinity = std::numeric_limits<double>::infinity();

// The parts, in the order they depend on each other.
ModelConfig build_model(Values& values);
DataConfig build_data(const Values& values);
OptimizerConfig build_optimizer(Values& values);
MemoryConfig build_memory(Values& values, const ZeroConfig& zero, const RunConfig& run);
void build_forms(const Values& values, Config& config);        // memory.moments and memory.master: of the states
void build_update_when(const Values& values, Config& config);  // memory.update_when, against what needs the norm
LearningRate build_schedule(Values& values, const OptimizerConfig& optimizer, int64_t steps);

}  // namespace zrt::runtime::configuration
