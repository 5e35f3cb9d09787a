// Text whose lines are JSON objects, as corpora are often handed on.
#pragma once
#include <string>
#include <string_view>

namespace zrt::models::data {

// By its ending: .jsonl, .ndjson or .json, also of a .gz.
bool has_json_lines_name(std::string name);

// By its first lines, of which the last may be cut: each is an object, alone or as one of a list's.
bool are_json_lines(std::string_view text);

}  // namespace zrt::models::data
