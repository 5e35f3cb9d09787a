#include "runtime/config/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/keys/text.h"
#include "core/lfs_pointer.h"

namespace zrt::runtime::configuration {
namespace {

using nlohmann::json;

constexpr size_t max_key_bytes = 256;  // keeps the paths of nested keys short

bool bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '+';
}

bool digit(char c) {
  return c >= '0' && c <= '9';
}

class JsonParser {
 public:
  JsonParser(std::string_view text, Document& document, Problems* problems)
      : text_(text), document_(document), problems_(problems) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") line_start_ = at_ = 3;
  }

  void run() {
    skip();
    document_.root = value("");
    skip();
    if (at_ < text_.size()) fail("the end of the text");
  }

 private:
  Refusal problem(const std::string& what) const {
    return {document_.name + ":" + std::to_string(line_) + ":" + std::to_string(at_ - line_start_ + 1) + ": " + what,
            "", line_};
  }

  [[noreturn]] void error(const std::string& what) const { throw problem(what); }

  [[noreturn]] void fail(const std::string& expected) const {
    if (at_ >= text_.size()) error("expected " + expected + ", but the text ends here.");
    size_t end = at_;
    while (end < text_.size() && bare(text_[end])) ++end;
    error("expected " + expected + ", found " + in_quotes(text_.substr(at_, std::max<size_t>(1, end - at_))) + ".");
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool next_is(std::string_view word) const { return text_.substr(at_, word.size()) == word; }

  void newline() {
    ++line_;
    line_start_ = at_ + 1;
  }

  // Skips blanks and comments; true when a line ended on the way.
  bool skip() {
    const int line = line_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        newline();
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '#' || next_is("//")) {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (next_is("/*")) {
        const size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) error("this comment is never closed; expected '*/'.");
        for (; at_ < end + 2; ++at_) {
          if (text_[at_] == '\n') newline();
        }
      } else {
        break;
      }
    }
    return line_ != line;
  }

  json value(const std::string& path) {
    if (peek() == '{') return object(path);
    if (peek() == '[') return array(path);
    if (peek() == '"' || peek() == '\'') return string();
    size_t end = at_;
    while (end < text_.size() && bare(text_[end])) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    json result;
    if (word == "true" || word == "false") {
      result = word == "true";
    } else if (word != "null") {
      if (word.empty() || (!digit(word[0]) && word[0] != '-')) {
        fail("a value (an object, a list, a number, a string in quotes, true, false or null)");
      }
      result = number(word);
    }
    at_ = end;
    return result;
  }

  json number(std::string_view word) const {
    size_t i = word[0] == '-' ? 1 : 0;
    const size_t whole = i;
    while (i < word.size() && digit(word[i])) ++i;
    bool good = i > whole && (i == whole + 1 || word[whole] != '0'), integer = true;
    if (good && i < word.size() && word[i] == '.') {
      const size_t begin = ++i;
      while (i < word.size() && digit(word[i])) ++i;
      good = i > begin, integer = false;
    }
    if (good && i < word.size() && (word[i] == 'e' || word[i] == 'E')) {
      if (++i < word.size() && (word[i] == '+' || word[i] == '-')) ++i;
      const size_t begin = i;
      while (i < word.size() && digit(word[i])) ++i;
      good = i > begin, integer = false;
    }
    if (!good || i != word.size()) error(in_quotes(word) + " is not a number; expected for example 5, -0.25 or 5e8.");
    if (integer) {
      int64_t whole_number = 0;
      if (std::from_chars(word.data(), word.data() + word.size(), whole_number).ec != std::errc()) {
        error(in_quotes(word) + " does not fit 64 bits; legal: -9223372036854775808 to 9223372036854775807.");
      }
      return whole_number;
    }
    double real = 0;
    if (std::from_chars(word.data(), word.data() + word.size(), real).ec != std::errc()) {
      error(in_quotes(word) + " does not fit a double; legal magnitudes: 0 and 2.3e-308 to 1.7e308.");
    }
    return real;
  }

  std::string string() {
    const char quote = text_[at_++];
    const size_t begin = at_;
    std::string result;
    while (peek() != quote) {
      if (at_ >= text_.size() || static_cast<unsigned char>(peek()) < 0x20) {
        at_ = at_ < text_.size() ? at_ : text_.size();
        error("a string must end with " + std::string(1, quote) +
              " on its line; write control characters as \\n, \\t or \\u0009.");
      }
      if (peek() == '\\') {
        ++at_;
        escape(result);
      } else {
        result += text_[at_++];
      }
    }
    if (!valid_utf8(result)) {
      at_ = begin;
      error("this string is not valid UTF-8; save the file as UTF-8.");
    }
    ++at_;
    return result;
  }

  void escape(std::string& result) {
    constexpr std::string_view names = "\"'\\/bfnrt", values = "\"'\\/\b\f\n\r\t";
    if (const size_t i = names.find(peek()); at_ < text_.size() && i != std::string_view::npos) {
      result += values[i];
      ++at_;
      return;
    }
    if (peek() != 'u') fail("one of \" ' \\ / b f n r t u after the backslash");
    uint32_t code = hex4();
    if (code >= 0xD800 && code < 0xDC00) {
      if (!next_is("\\u")) fail("the second half of a surrogate pair");
      ++at_;
      const uint32_t low = hex4();
      if (low < 0xDC00 || low > 0xDFFF) error("the second half of a surrogate pair must be \\udc00 to \\udfff.");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code == 0 || (code >= 0xDC00 && code < 0xE000)) {
      error("\\u0000 and lone halves of surrogate pairs are not characters.");
    }
    append_utf8(result, code);
  }

  uint32_t hex4() {
    ++at_;
    uint32_t code = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error_code] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error_code != std::errc() || end != digits.data() + 4) fail("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  void enter() {
    if (++depth_ > max_config_depth) {
      error("objects and lists are nested deeper than " + std::to_string(max_config_depth) + " levels.");
    }
    ++at_;
  }

  // After an element: true when the next one begins, false at `close`.
  bool another(char close) {
    bool separated = skip();
    if (peek() == ',') {
      ++at_;
      skip();
      separated = true;
    }
    if (peek() == close) return false;
    if (!separated) fail(std::string("',' or '") + close + "'");
    return true;
  }

  json array(const std::string& path) {
    enter();
    json result = json::array();
    skip();
    for (bool more = peek() != ']'; more; more = another(']')) result.push_back(value(path + "[]"));
    ++at_;
    --depth_;
    return result;
  }

  std::string key() {
    if (peek() == '"' || peek() == '\'') return string();
    size_t end = at_;
    while (end < text_.size() && bare(text_[end])) ++end;
    if (end == at_) fail("a key or '}'");
    std::string name(text_.substr(at_, end - at_));
    at_ = end;
    return name;
  }

  void repeated(const std::string& full, size_t begin) {
    const size_t end = std::exchange(at_, begin);
    const Refusal twice = problem("the key " + in_quotes(full) + " appears twice (first in line " +
                                  std::to_string(document_.lines[full]) + "); keep one of them.");
    if (problems_ == nullptr) throw twice;
    problems_->add(twice);
    at_ = end;
  }

  json object(const std::string& path) {
    enter();
    json result = json::object();
    skip();
    for (bool more = peek() != '}'; more; more = another('}')) {
      const int line = line_;
      const size_t begin = at_;
      const std::string name = key();
      if (name.size() > max_key_bytes) {
        at_ = begin;
        error("the key " + in_quotes(name) + " is longer than " + std::to_string(max_key_bytes) + " bytes.");
      }
      const std::string full = path.empty() ? name : path + "." + name;
      const bool again = result.contains(name);
      if (again) repeated(full, begin);
      if (!again) document_.lines[full] = line;
      skip();
      if (peek() != ':') fail("':' after the key " + in_quotes(full));
      ++at_;
      skip();
      if (again) {
        value(full + "#");  // read and left: "#" keeps its lines apart
      } else {
        result[name] = value(full);
      }
    }
    ++at_;
    --depth_;
    return result;
  }

  std::string_view text_;
  Document& document_;
  Problems* problems_;
  size_t at_ = 0, line_start_ = 0;
  int line_ = 1, depth_ = 0;
};

}  // namespace

Document parse_config_text(std::string_view text, const std::string& name, Problems* problems) {
  Document document;
  document.name = name;
  JsonParser(text, document, problems).run();
  return document;
}

namespace {

// Says why a file that was named as a configuration did not open. "owner/name" is most likely a model of the Hub.
std::string reason_not_to_open(const std::filesystem::path& file) {
  std::error_code code;
  if (std::filesystem::exists(file, code)) return "this user may not read it.";
  const std::string name = file.string();
  const bool hub = std::count(name.begin(), name.end(), '/') == 1 && name.front() != '/' && name.front() != '.' &&
                   file.extension() != ".json";
  if (!hub) return "there is no such file or folder; check the path.";
  return "there is no such file or folder. zrt downloads nothing: if it is a model of the Hugging Face Hub, fetch its "
         "folder first (`huggingface-cli download " +
         name + " --local-dir DIR`) and name DIR.";
}

}  // namespace

std::string read_config_file(const std::filesystem::path& file) {
  std::error_code code;
  if (std::filesystem::is_directory(file, code)) {
    throw core::ConfigError(file.string() + " is a directory; give the path of a JSON file.");
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw core::ConfigError("cannot open " + file.string() + ": " + reason_not_to_open(file));
  // Reads one byte more than is allowed instead of asking for the size, which pipes do not have.
  std::string text(max_config_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (stream.bad()) throw core::ConfigError("reading the configuration file " + file.string() + " failed.");
  if (core::is_lfs_pointer(text))
    throw core::ConfigError(fmt::format("{}: {}", file.string(), core::lfs_pointer_reason));
  if (text.size() > max_config_bytes) {
    throw core::ConfigError(file.string() + " is larger than " + std::to_string(max_config_bytes) +
                            " bytes, too large for a configuration.");
  }
  return text;
}

}  // namespace zrt::runtime::configuration
