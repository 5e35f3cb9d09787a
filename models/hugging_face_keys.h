// The keys of config.json that zrt knows.
#pragma once
#include <functional>
#include <string>

#include "models/spec.h"

namespace zrt::models {

// Throws DataError for a key that changes what the model computes and has a value that zrt does not compute with, and
// for an architecture with another head. `warn`, if there is one, hears of keys that zrt does not know, by name.
void check_config_keys(const ModelSpec& spec, const OrderedJson& config, const std::string& name,
                       const std::function<void(const std::string&)>& warn);

}  // namespace zrt::models
