// Characters of well-formed UTF-8: their classes and normal forms, from ICU.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace zrt::runtime::data::tokenizer_json {

struct Character {
  char32_t code;
  size_t bytes;
};

// The character that begins at `at`.
inline Character character_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 31) << 6 | (byte(1) & 63), 2};
  if (lead < 0xF0) return {(lead & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63), 3};
  return {(lead & 7) << 18 | (byte(1) & 63) << 12 | (byte(2) & 63) << 6 | (byte(3) & 63), 4};
}

// Begin of the character that ends before `at`, which is above 0.
inline size_t character_before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

void append(std::string& out, char32_t code);

// Bytes of the longest well-formed UTF-8 that `text` begins with.
size_t well_formed_bytes(std::string_view text);
bool is_ascii(std::string_view text);

bool is_space(char32_t code);            // White_Space
bool is_mark(char32_t code);             // general category M
bool is_nonspacing_mark(char32_t code);  // Mn
bool is_number(char32_t code);           // N
bool is_word(char32_t code);             // letters, marks, decimal digits, connectors and joiners
bool is_punctuation(char32_t code);      // P, and ASCII's signs such as $ and ^
bool is_control(char32_t code);          // Cc, Cf and Co
bool is_chinese(char32_t code);          // the blocks of ideographs that BERT sets apart
bool is_script(std::string_view name);   // such as Han; general categories such as Lu are none
int script_of(char32_t code, int* any);  // a number for each script; `any`: the number for none

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };
void normalize(NormalForm form, std::string& text);
void lowercase(std::string& text);  // each character for itself

// End of the grapheme cluster that begins at `at`, where a cluster begins.
size_t grapheme_end(std::string_view text, size_t at);

}  // namespace zrt::runtime::data::tokenizer_json
