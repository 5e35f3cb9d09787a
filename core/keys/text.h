// Small helpers for text in messages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::core::keys {

// Returns the text in single quotes, cut to 60 bytes, and printable (core/printable.h).
std::string in_quotes(std::string_view text);

bool valid_utf8(std::string_view text);
void append_utf8(std::string& text, uint32_t code);

// The word of `words` with the smallest edit distance to `wanted`; empty when none is close enough to be meant.
std::string nearest(std::string_view wanted, const std::vector<std::string>& words);

std::string in_lower_case(std::string_view text);  // of ASCII

// "a, b, c"
std::string join(const std::vector<std::string>& words, std::string_view between = ", ");

}  // namespace zrt::core::keys
