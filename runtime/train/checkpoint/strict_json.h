// JSON from files that nobody may be trusted to have written: duplicate keys, deep nesting and bad UTF-8 are errors.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace zrt::runtime::checkpoint {

using Json = nlohmann::ordered_json;

// Throws DataError with `name`, the place and what is wrong.
Json parse_strict_json(std::string_view text, const std::string& name, int max_depth = 8);

}  // namespace zrt::runtime::checkpoint
