#include "core/utf8.h"

#include <cstdint>

namespace zrt::core {

size_t utf8_character(std::string_view text) {
  const auto byte = [&](size_t i) -> uint8_t { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  const auto trail = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  if (text.empty()) return 0;
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return trail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    // No overlong forms, no surrogates.
    const bool second = trail(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF);
    return second && trail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool second = trail(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF);
    return second && trail(2) && trail(3) ? 4 : 0;
  }
  return 0;
}

bool is_wide_space(std::string_view character) {
  if (character.size() == 2) return character == "\u0085" || character == "\u00a0";
  if (character.size() != 3) return false;
  if (character.starts_with("\xe2\x80")) {
    const auto last = static_cast<uint8_t>(character[2]);
    return (last >= 0x80 && last <= 0x8a) || last == 0xa8 || last == 0xa9 || last == 0xaf;
  }
  return character == "\u1680" || character == "\u205f" || character == "\u3000";
}

size_t utf8_cut(std::string_view text, size_t most, bool lines) {
  if (text.size() <= most) return text.size();
  if (lines) {
    const size_t newline = text.substr(0, most).rfind('\n');
    if (newline != std::string_view::npos) return newline + 1;
  }
  size_t cut = most;
  while ((static_cast<uint8_t>(text[cut]) & 0xC0) == 0x80) --cut;
  return cut;
}

}  // namespace zrt::core
