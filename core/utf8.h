// Which bytes of a text are UTF-8.
#pragma once
#include <cstddef>
#include <string_view>

namespace zrt::core {

// Bytes of the well-formed character (Unicode 15, table 3-7) that `text` starts with, 1 to 4; 0 when there is none.
size_t utf8_character(std::string_view text);

// The largest n <= `most` at which `text`, well-formed UTF-8, may be cut between two characters: behind the last
// newline there if `lines`, else anywhere. `most` is at least 4.
size_t utf8_cut(std::string_view text, size_t most, bool lines);

}  // namespace zrt::core
