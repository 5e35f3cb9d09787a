#include "runtime/data/chat/tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.h"

namespace zrt::runtime::data::chat {
namespace {

using Kind = Token::Kind;

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
bool is_white(char c) {
  return is_blank(c) || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool begins_name(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Cutter {
 public:
  explicit Cutter(std::string_view source) : source_(source) {
    // Jinja leaves out one line feed at the end.
    if (source_.ends_with('\n')) source_.remove_suffix(1);
  }

  std::vector<Token> cut() {
    while (at_ < source_.size()) {
      const size_t tag = next_tag();
      const std::string_view between = source_.substr(at_, tag - at_);
      at_ = tag;
      if (tag == source_.size()) {
        add_text(between, false, false);
        break;
      }
      const char kind = source_[tag + 1];
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      add_text(between, sign == '-', kind != '{' && sign != '+');
      at_ += sign == '-' || (sign == '+' && kind != '{') ? 3 : 2;
      if (kind == '#') {
        skip_comment();
      } else {
        add(kind == '%' ? Kind::begin_statement : Kind::begin_output, std::string(1, kind));
        cut_tag(kind == '%' ? "%}" : "}}");
      }
    }
    add(Kind::last, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw core::ConfigError(fmt::format("line {} of the template: {}", line_, what));
  }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  size_t next_tag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' && (source_[i + 1] == '%' || source_[i + 1] == '{' || source_[i + 1] == '#')) return i;
    }
    return source_.size();
  }

  // before_tag: the tag takes away white space in front of it; of_line: blanks alone, where nothing else is in front of
  // it on its line.
  void add_text(std::string_view text, bool before_tag, bool of_line) {
    const int lines = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    if (strip_next_) {
      while (!text.empty() && is_white(text.front())) text.remove_prefix(1);
    } else if (feed_goes_ && text.starts_with('\n')) {
      text.remove_prefix(1);
    }
    if (before_tag) {
      while (!text.empty() && is_white(text.back())) text.remove_suffix(1);
    } else if (of_line) {
      size_t end = text.size();
      while (end > 0 && is_blank(text[end - 1])) --end;
      const bool first = end == 0 && (tokens_.empty() || feed_goes_ || strip_next_);
      if ((end > 0 && text[end - 1] == '\n') || (first && begins_line(text))) text = text.substr(0, end);
    }
    if (!text.empty()) add(Kind::text, std::string(text));
    line_ += lines;
    strip_next_ = feed_goes_ = false;
  }

  // True if nothing but blanks stands between the text's begin and that of its line in the source.
  bool begins_line(std::string_view text) const {
    auto before = static_cast<size_t>(text.data() - source_.data());
    while (before > 0 && is_blank(source_[before - 1])) --before;
    return before == 0 || source_[before - 1] == '\n';
  }

  // Notes how a tag has ended: `-` takes the white space behind it, and a statement without `+` a line feed.
  void behind_tag(char sign, bool output) {
    strip_next_ = sign == '-';
    feed_goes_ = !output && sign != '+';
  }

  void skip_comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) refuse("a comment '{#' has no end '#}'");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    const std::string_view comment = source_.substr(at_, end - at_);
    line_ += static_cast<int>(std::count(comment.begin(), comment.end(), '\n'));
    at_ = end + 2;
    behind_tag(sign, false);
  }

  void cut_tag(std::string_view end) {
    int depth = 0;  // of brackets, in which "}}" ends mappings
    while (true) {
      while (at_ < source_.size() && is_white(source_[at_])) line_ += source_[at_++] == '\n' ? 1 : 0;
      if (at_ == source_.size()) refuse(fmt::format("a tag has no end '{}'", end));
      const std::string_view rest = source_.substr(at_);
      if (depth == 0) {
        const bool signs = rest.front() == '-' || rest.front() == '+';
        if (rest.substr(signs ? 1 : 0).starts_with(end)) {
          at_ += end.size() + (signs ? 1 : 0);
          add(Kind::end, std::string(end));
          return behind_tag(signs ? rest.front() : ' ', end == "}}");
        }
      }
      if (rest.front() == '\'' || rest.front() == '"') {
        cut_string();
      } else if (begins_name(rest.front())) {
        take(Kind::name, [](char c) { return begins_name(c) || is_digit(c); });
      } else if (is_digit(rest.front())) {
        cut_number();
      } else {
        const std::string sign = sign_at(rest);
        depth += sign == "(" || sign == "[" || sign == "{" ? 1 : sign == ")" || sign == "]" || sign == "}" ? -1 : 0;
        at_ += sign.size();
        add(Kind::sign, sign);
      }
    }
  }

  std::string sign_at(std::string_view rest) const {
    constexpr std::array<std::string_view, 7> two{"==", "!=", "<=", ">=", "//", "**", "||"};
    for (const std::string_view sign : two) {
      if (sign != "||" && rest.starts_with(sign)) return std::string(sign);
    }
    if (std::string_view("()[]{}.,:|~+-*/%<>=").find(rest.front()) == std::string_view::npos) {
      refuse(fmt::format("'{}' is no part of an expression", rest.front()));
    }
    return std::string(1, rest.front());
  }

  template <class Goes>
  void take(Kind kind, const Goes& goes) {
    const size_t begin = at_;
    while (at_ < source_.size() && goes(source_[at_])) ++at_;
    add(kind, std::string(source_.substr(begin, at_ - begin)));
  }

  void cut_number() {
    const size_t begin = at_;
    const auto digits = [&] {
      while (at_ < source_.size() && is_digit(source_[at_])) ++at_;
    };
    const auto digit_at = [&](size_t at) { return at < source_.size() && is_digit(source_[at]); };
    Kind kind = Kind::integer;
    digits();
    if (digit_at(at_ + 1) && source_[at_] == '.') kind = Kind::real, ++at_, digits();
    if (at_ < source_.size() && (source_[at_] == 'e' || source_[at_] == 'E')) {
      const bool sign = at_ + 1 < source_.size() && (source_[at_ + 1] == '-' || source_[at_ + 1] == '+');
      if (digit_at(at_ + (sign ? 2 : 1))) kind = Kind::real, at_ += sign ? 2 : 1, digits();
    }
    add(kind, std::string(source_.substr(begin, at_ - begin)));
  }

  void cut_string() {
    const char quote = source_[at_++];
    std::string text;
    for (; at_ < source_.size() && source_[at_] != quote; ++at_) {
      if (source_[at_] == '\n') ++line_;
      if (source_[at_] != '\\' || at_ + 1 == source_.size()) {
        text += source_[at_];
        continue;
      }
      const char c = source_[++at_];
      constexpr std::string_view names = "nrtbfv0\\'\"", meanings("\n\r\t\b\f\v\0\\'\"", 10);
      if (const size_t known = names.find(c); known != std::string_view::npos) {
        text += meanings[known];
      } else if (c == 'u' || c == 'x' || c == 'U') {
        refuse(fmt::format("'\\{}' in a text is not known; write the character itself", c));
      } else {
        text += '\\', text += c;
      }
    }
    if (at_ == source_.size()) refuse("a text has no end");
    ++at_;
    add(Kind::string, std::move(text));
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool strip_next_ = false;  // white space behind the tag goes
  bool feed_goes_ = false;   // a line feed behind the tag goes
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> cut_template(std::string_view source) {
  std::string lines;  // of Windows end as others do
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      lines += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      lines += '\n';
    }
  }
  return Cutter(lines).cut();
}

}  // namespace zrt::runtime::data::chat
