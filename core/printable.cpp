#include "core/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "core/utf8.h"

namespace zrt::core {
namespace {

// A character of `text` that no terminal obeys; of C1, U+0080 to U+009F, some terminals do.
bool harmless(std::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first >= 0x20 && first != 0x7F;
  return first != 0xC2 || static_cast<uint8_t>(character[1]) >= 0xA0;
}

std::string escaped(char byte) {
  switch (byte) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
  }
}

std::string escape(std::string_view text, std::string_view kept) {
  std::string result;
  while (!text.empty()) {
    const size_t valid = utf8_character(text);
    const std::string_view character = text.substr(0, std::max<size_t>(valid, 1));
    text.remove_prefix(character.size());
    if (valid > 0 && (harmless(character) || kept.find(character) != kept.npos))
      result += character;
    else
      for (const char byte : character) result += escaped(byte);
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text) {
  return escape(text, "");
}

std::string printable_lines(std::string_view text) {
  return escape(text, "\n\t");
}

std::string in_shell(std::string_view word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=/,:+-%@";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace zrt::core
