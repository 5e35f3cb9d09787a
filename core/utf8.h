// Tells which bytes of a text are UTF-8.
#pragma once
#include <cstddef>
#include <string_view>

namespace zrt::core {

// Bytes of the well-formed character (Unicode 15, table 3-7) that `text` starts with, 1 to 4; 0 when there is none.
size_t utf8_character(std::string_view text);

// True for a character of several bytes that is White_Space of Unicode: U+0085, U+00A0, U+1680, U+2000 to U+200A,
// U+2028, U+2029, U+202F, U+205F and U+3000.
bool is_wide_space(std::string_view character);

// The largest n <= `most` at which `text`, well-formed UTF-8, may be cut between two characters: behind the last
// newline there if `lines`, else anywhere. `most` is at least 4.
size_t utf8_cut(std::string_view text, size_t most, bool lines);

}  // namespace zrt::core
