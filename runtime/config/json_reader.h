// Reads configuration text: JSON, and the parts of Hjson that DeepSpeed files use. Accepted beside strict JSON are
// comments (#, // and /* */), a comma after the last element, no comma at the end of a line, keys without quotes
// (letters, digits, '_', '-', '.'), single-quoted strings and a byte order mark. Not accepted: strings without quotes,
// multi-line strings, NaN and infinities.
//
// Integers that do not fit 64 bits, numbers outside double, invalid UTF-8, a key given twice in one object and nesting
// beyond max_depth are errors, each with its place as file:line:column.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {

inline constexpr size_t max_config_bytes = 16u << 20;
inline constexpr int max_config_depth = 64;

struct Document {
  nlohmann::json root;
  std::string name;                  // for messages
  std::map<std::string, int> lines;  // "zero_optimization.stage" to the line of that key, from 1
};

// One value with nothing but comments around it. Throws ConfigError; where `problems` is given, a key that appears
// twice is added there instead, and the first one counts.
Document parse_config_text(std::string_view text, const std::string& name, Problems* problems = nullptr);

// The text of a file of at most max_config_bytes. Throws ConfigError when it cannot be read.
std::string read_config_file(const std::filesystem::path& file);

}  // namespace zrt::runtime::configuration
