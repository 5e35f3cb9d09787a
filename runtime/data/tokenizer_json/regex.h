// Regular expressions as tokenizer.json writes them (Oniguruma's dialect of Ruby), run by PCRE2.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace zrt::runtime::data::tokenizer_json {

// The same expression for PCRE2: classes inside classes are joined, \s, \w, \h and \b get Oniguruma's meaning. Throws
// std::invalid_argument that says what cannot be expressed, and where.
std::string pcre_pattern(std::string_view oniguruma);

class Regex {
 public:
  // Throws DataError naming `source` and `place` where the expression is none, or none that zrt has.
  Regex(const std::string& pattern, const std::string& source, const std::string& place);
  ~Regex();

  // The matches in `text` (well-formed UTF-8) from left to right, where none begins before the last one's end.
  class Matches {
   public:
    Matches(const Regex& regex, std::string_view text) : regex_(regex), text_(text) {}
    bool next();
    size_t begin = 0, end = 0;

   private:
    const Regex& regex_;
    std::string_view text_;
    size_t from_ = 0;
    bool matched_ = false;
  };

 private:
  bool find(std::string_view text, size_t from, size_t& begin, size_t& end) const;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zrt::runtime::data::tokenizer_json
