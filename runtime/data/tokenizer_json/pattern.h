// {"String": "…"} or {"Regex": "…"}: what Split and Replace look for.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "runtime/data/tokenizer_json/fields.h"
#include "runtime/data/tokenizer_json/regex.h"

namespace zrt::runtime::data::tokenizer_json {

class Pattern {
 public:
  Pattern(Fields& fields, const char* key);  // throws DataError

  // Calls part(begin, end, matched) for each match and for what lies between, from left to right.
  template <class Part>
  void parts(std::string_view text, const Part& part) const {
    size_t done = 0;
    const auto matched = [&](size_t begin, size_t end) {
      if (begin > done) part(done, begin, false);
      part(begin, end, true);
      done = end;
    };
    if (regex_) {
      for (Regex::Matches matches(*regex_, text); matches.next();) matched(matches.begin, matches.end);
    } else {
      for (size_t at = text.find(text_); at != std::string_view::npos; at = text.find(text_, at + text_.size()))
        matched(at, at + text_.size());
    }
    if (done < text.size()) part(done, text.size(), false);
  }

  void replace(std::string& text, std::string_view content) const;

 private:
  std::string text_;
  std::unique_ptr<Regex> regex_;
};

}  // namespace zrt::runtime::data::tokenizer_json
