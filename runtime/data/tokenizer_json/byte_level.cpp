#include "runtime/data/tokenizer_json/byte_level.h"

#include <array>

#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

constexpr std::array<char32_t, 256> characters = [] {
  std::array<char32_t, 256> all{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    all[byte] = itself ? byte : next++;
  }
  return all;
}();

constexpr size_t character_count = 0x144;  // the largest and one
constexpr std::array<int16_t, character_count> bytes_of = [] {
  std::array<int16_t, character_count> all{};
  all.fill(-1);
  for (size_t byte = 0; byte < 256; ++byte) all[characters[byte]] = static_cast<int16_t>(byte);
  return all;
}();

}  // namespace

char32_t byte_character(uint8_t byte) {
  return characters[byte];
}

void append_byte_characters(std::string& out, std::string_view bytes) {
  for (const char c : bytes) append(out, characters[static_cast<unsigned char>(c)]);
}

bool append_bytes(std::string& out, std::string_view text) {
  const size_t before = out.size();
  for (size_t at = 0; at < text.size();) {
    const Character next = character_at(text, at);
    if (next.code >= character_count || bytes_of[next.code] < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(bytes_of[next.code]);
    at += next.bytes;
  }
  return true;
}

}  // namespace zrt::runtime::data::tokenizer_json
