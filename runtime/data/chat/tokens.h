// Cuts a Jinja template into text and the tokens of its tags, with the white space taken away that a template's tags
// and the settings of transformers (trim_blocks, lstrip_blocks) say.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::runtime::data::chat {

struct Token {
  enum class Kind : uint8_t {
    text,             // of the template itself
    begin_statement,  // {%
    begin_output,     // {{
    end,              // %} or }}
    name,
    string,
    integer,
    real,
    sign,  // an operator or a bracket
    last,  // the template has ended
  } kind = Kind::last;
  std::string text;
  int line = 0;
};

// Throws ConfigError naming the line.
std::vector<Token> cut_template(std::string_view source);

}  // namespace zrt::runtime::data::chat
