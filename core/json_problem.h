// Says where a text stops being JSON, in zrt's words instead of those of the library that found it.
#pragma once
#include <string>
#include <string_view>

namespace zrt::core {

// Keeps the place and what was read last of nlohmann::json's "[json.exception.parse_error.101] parse error at line 2,
// column 7: syntax error …; last read: 'x'": "line 2, column 7 cannot be read, behind 'x'".
std::string json_problem(std::string_view text);

}  // namespace zrt::core
