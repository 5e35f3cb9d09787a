// The model presets: sizes by name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/config.h"

namespace zrt::runtime {

// Null when there is no such preset. Dropout is the default of ModelConfig.
const ModelConfig* find_preset(std::string_view name);
std::vector<std::string> preset_names();

}  // namespace zrt::runtime
