// Oniguruma's expressions in PCRE2's words.
#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/data/tokenizer_json/regex.h"
#include "runtime/data/tokenizer_json/unicode.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

// White_Space; PCRE2's own \s has U+180E, too.
constexpr const char* spaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
// Oniguruma's table for Latin-1 has six numbers, too.
constexpr const char* words = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) item();
    out_.append(flagged_, ')');
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::invalid_argument(fmt::format("{}, at byte {}", why, at_));
  }
  bool starts(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  char peek(size_t ahead) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }

  void item() {
    const char c = pattern_[at_];
    if (c == '*' || c == '+' || c == '?') {
      out_ += c;
      ++at_;
      return;
    }
    if (c == '{' && repeat()) return;
    if (c == ')') {
      if (groups_.empty()) fail("a group ends that never began");
      out_.append(flagged_, ')');
      atom_ = groups_.back().begin;
      flagged_ = groups_.back().flagged_outside;
      groups_.pop_back();
      out_ += c;
      ++at_;
      return;
    }
    atom_ = out_.size();
    if (c == '\\') return escape();
    if (c == '[') {
      out_ += '[';
      ++at_;
      if (peek(0) == '^') out_ += '^', ++at_;
      members(0);
      out_ += ']';
      return;
    }
    if (c == '(') return group();
    out_ += c;
    ++at_;
  }

  void group() {
    const size_t begin = out_.size();
    out_ += '(';
    ++at_;
    if (peek(0) != '?') return open(begin);
    // Flags: Ruby's m lets the dot match newlines, which PCRE2 calls s.
    size_t end = at_ + 1;
    while (end < pattern_.size() &&
           (pattern_[end] == 'i' || pattern_[end] == 'm' || pattern_[end] == 'x' || pattern_[end] == '-'))
      ++end;
    const bool flags = end > at_ + 1 && end < pattern_.size() && (pattern_[end] == ':' || pattern_[end] == ')');
    if (!flags) return open(begin);
    for (; at_ < end; ++at_) out_ += pattern_[at_] == 'm' ? 's' : pattern_[at_];
    if (pattern_[end] == ':') return open(begin);
    // Flags alone hold to the end of the group around them, over its other branches, too: a(?i)b|c is a(?i:b|c).
    out_ += ':';
    ++at_;
    ++flagged_;
  }

  void open(size_t begin) { groups_.push_back({begin, std::exchange(flagged_, 0)}); }

  // {n,m}: a + behind it repeats it again in Ruby, where PCRE2 would not give back.
  bool repeat() {
    size_t end = at_ + 1;
    while (end < pattern_.size() && ((pattern_[end] >= '0' && pattern_[end] <= '9') || pattern_[end] == ',')) ++end;
    if (end >= pattern_.size() || pattern_[end] != '}' || end == at_ + 1) return false;
    std::string inside(pattern_.substr(at_ + 1, end - at_ - 1));
    if (inside.starts_with(',')) inside.insert(0, 1, '0');
    out_ += "{" + inside + "}";
    at_ = end + 1;
    if (peek(0) == '+') {
      out_.insert(atom_, "(?:");
      out_ += ")+";
      ++at_;
    }
    return true;
  }

  void escape() {
    const char c = peek(1);
    const auto put = [&](const std::string& text) {
      out_ += text;
      at_ += 2;
    };
    const std::string word = fmt::format("[{}]", words);
    if (c == '\0') fail("it ends with a backslash");
    if (c == 's') return put(fmt::format("[{}]", spaces));
    if (c == 'S') return put(fmt::format("[^{}]", spaces));
    if (c == 'w') return put(word);
    if (c == 'W') return put(fmt::format("[^{}]", words));
    if (c == 'h') return put("[0-9a-fA-F]");
    if (c == 'H') return put("[^0-9a-fA-F]");
    if (c == 'b') return put(fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word));
    if (c == 'B') return put(fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word));
    if (c == 'K' || c == 'G' || c == 'Q' || c == 'E') fail(fmt::format("zrt does not have \\{}", c));
    if (c == 'v') return put("\\x{b}");  // PCRE2's has newlines, too
    if (c == 'x') return hexadecimal();
    if (c == 'u') return code_point();
    if (c == 'p' || c == 'P') return property();
    copy_escape();
  }

  // \x4 and \x41 are bytes, \x{41} is a character.
  void hexadecimal() {
    constexpr std::string_view legal = "0123456789abcdefABCDEF";
    const bool braces = peek(2) == '{';
    const size_t begin = at_ + (braces ? 3 : 2), most = braces ? 8 : 2;
    size_t end = begin;
    while (end < pattern_.size() && end - begin < most && legal.find(pattern_[end]) != legal.npos) ++end;
    const std::string_view digits = pattern_.substr(begin, end - begin);
    if (digits.empty() || (braces && (end >= pattern_.size() || pattern_[end] != '}')))
      fail("hexadecimal digits must follow \\x, alone or in braces");
    if (!braces && digits.size() == 2 && digits[0] >= '8')
      fail("zrt does not have bytes of characters (\\x80 and above); write the character, or its number as \\x{…}");
    out_ += fmt::format("\\x{{{}}}", digits);
    at_ = end + (braces ? 1 : 0);
  }

  void copy_escape() {
    out_ += pattern_.substr(at_, 2);
    at_ += 2;
  }

  void code_point() {
    const std::string_view digits = pattern_.substr(at_ + 2, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      fail("four hexadecimal digits must follow \\u");
    out_ += fmt::format("\\x{{{}}}", digits);
    at_ += 6;
  }

  void property() {
    const size_t end = pattern_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos) fail("a class {…} must follow \\p");
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    // A script's name means its own characters; to PCRE2 alone it means those that it shares with others, too.
    out_ += fmt::format("\\{}{{{}{}{}}}", pattern_[at_ + 1], negated ? "^" : "", is_script(name) ? "sc:" : "", name);
    at_ = end + 1;
  }

  void posix_class() {
    const size_t end = pattern_.find(":]", at_);
    if (end == std::string_view::npos) fail("[: is never closed");
    const std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
    const std::array<std::pair<std::string_view, const char*>, 7> known{{{"upper", "\\p{Uppercase}"},
                                                                         {"lower", "\\p{Lowercase}"},
                                                                         {"alpha", "\\p{Alphabetic}"},
                                                                         {"digit", "\\p{Nd}"},
                                                                         {"xdigit", "0-9a-fA-F"},
                                                                         {"space", spaces},
                                                                         {"word", words}}};
    for (const auto& [known_name, members] : known) {
      if (name != known_name) continue;
      out_ += members;
      at_ = end + 2;
      return;
    }
    fail(fmt::format("zrt does not have the class [:{}:]; it has upper, lower, alpha, digit, xdigit, space and word",
                     name));
  }

  // The members of a class up to its end, which is passed.
  void members(int depth) {
    if (depth > 8) fail("classes lie more than 8 deep in one another");
    bool any = false;
    if (peek(0) == ']') out_ += "\\]", ++at_, any = true;  // as the first member it is one
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      any = true;
      if (starts("[:")) {
        posix_class();
      } else if (starts("[^")) {
        fail("zrt does not have negated classes inside classes; write the class without them");
      } else if (starts("&&")) {
        fail("zrt does not have intersections of classes (&&); write a look-ahead in their place");
      } else if (pattern_[at_] == '[') {
        ++at_;
        members(depth + 1);
      } else if (pattern_[at_] == '\\') {
        class_escape();
      } else {
        out_ += pattern_[at_++];
      }
    }
    if (at_ >= pattern_.size() || !any) fail("a class is never closed");
    ++at_;
  }

  void class_escape() {
    const char c = peek(1);
    const auto put = [&](const std::string& text) {
      out_ += text;
      at_ += 2;
    };
    if (c == '\0') fail("it ends with a backslash");
    if (c == 's') return put(spaces);
    if (c == 'S') return put(R"(\S\x{180e})");
    if (c == 'w') return put(words);
    if (c == 'W') fail("zrt does not have \\W inside classes");
    if (c == 'h') return put("0-9a-fA-F");
    if (c == 'H') fail("zrt does not have \\H inside classes");
    if (c == 'v') return put("\\x{b}");
    if (c == 'x') return hexadecimal();
    if (c == 'u') return code_point();
    if (c == 'p' || c == 'P') return property();
    copy_escape();
  }

  std::string_view pattern_;
  std::string out_;
  size_t at_ = 0, atom_ = 0;
  struct Group {
    size_t begin;            // in out_
    size_t flagged_outside;  // groups of flags that are open around it
  };
  std::vector<Group> groups_;
  size_t flagged_ = 0;  // groups of flags that end with the group at hand
};

}  // namespace

std::string pcre_pattern(std::string_view oniguruma) {
  return Translator(oniguruma).run();
}

}  // namespace zrt::runtime::data::tokenizer_json
