// The 256 characters that byte-level tokenizers write bytes with (Radford et al. 2019): printable Latin-1 stands for
// itself, other bytes for U+0100 and on.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace zrt::runtime::data::tokenizer_json {

char32_t byte_character(uint8_t byte);
void append_byte_characters(std::string& out, std::string_view bytes);
// The bytes that `characters` stands for; false, and nothing appended, where one of them stands for none.
bool append_bytes(std::string& out, std::string_view characters);

}  // namespace zrt::runtime::data::tokenizer_json
