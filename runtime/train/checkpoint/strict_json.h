// JSON from files that nobody may be trusted to have written: duplicate keys, deep nesting and bad UTF-8 are errors.
// The work grows with the length of the text, also where one object has a hundred thousand keys.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace zrt::runtime::checkpoint {

using Json = nlohmann::ordered_json;

// Throws DataError with `name`, the place and what is wrong.
Json parse_strict_json(std::string_view text, const std::string& name, int max_depth = 8);

// Adds a key that the object does not have yet. object[key] would compare it with all others first.
void append(Json& object, std::string key, Json value);

}  // namespace zrt::runtime::checkpoint
