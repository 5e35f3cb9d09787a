#include "runtime/data/json_field.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace zrt::runtime::data {

namespace {

using nlohmann::json;

// Keeps the field of the outermost object; everything else is only checked to be JSON.
class FieldHandler : public json::json_sax_t {
 public:
  FieldHandler(const std::string& name, std::string& text) : name_(name), text_(text) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(number_integer_t) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t) override { return other("a number"); }
  bool number_float(number_float_t, const string_t&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary"); }
  bool string(string_t& value) override {
    if (!here()) return other("a text");
    text_.swap(value);
    found_ = true;
    kind_ = "";
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    at_field_ = name == name_;
    if (!at_field_ && fields_.size() < most_fields) fields_.push_back(name.substr(0, 40));
    return true;
  }
  bool start_object(size_t) override {
    if (depth_ == 0) object_ = true;
    return open("an object");
  }
  bool start_array(size_t) override { return open("a list"); }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool parse_error(size_t column, const std::string&, const nlohmann::detail::exception& error) override {
    column_ = column;
    // "[json.exception.…] parse error at …: syntax error while parsing … - reason; last read: …"
    reason_ = error.what();
    reason_.erase(0, reason_.find("] ") == std::string::npos ? 0 : reason_.find("] ") + 2);
    if (const size_t dash = reason_.find(" - "); dash != std::string::npos) reason_.erase(0, dash + 3);
    reason_.erase(std::min({reason_.find("; last read"), reason_.find("; expected"), reason_.size()}));
    return false;
  }

  std::string problem(size_t bytes) const {
    if (!reason_.empty()) {
      const char* cut = column_ > bytes ? ". A value that lies over several lines? `jq -c .` puts each on one" : "";
      return fmt::format("it is no JSON: column {}: {}{}", column_, reason_, cut);
    }
    if (!object_) return "it is no object; a line holds one, such as {\"text\": \"…\"}";
    if (found_ && *kind_ == '\0') return "";
    if (*kind_ != '\0') return fmt::format("its field '{}' is {}; it must be a text", name_, kind_);
    if (fields_.empty()) return fmt::format("it has no field '{}', nor any other", name_);
    return fmt::format("it has no field '{}'; --field names another: it has {}{}", name_, fmt::join(fields_, ", "),
                       fields_.size() == most_fields ? " …" : "");
  }

 private:
  static constexpr size_t most_fields = 8;

  bool here() const { return depth_ == 1 && at_field_; }
  bool other(const char* kind) {
    if (here()) kind_ = kind;
    return true;
  }
  bool open(const char* kind) {
    other(kind);
    ++depth_;
    return true;
  }

  const std::string& name_;
  std::string& text_;
  int depth_ = 0;
  bool object_ = false, at_field_ = false, found_ = false;
  const char* kind_ = "";  // of the field, where it is no text
  std::vector<std::string> fields_;
  size_t column_ = 0;
  std::string reason_;
};

}  // namespace

bool JsonField::is_json(std::string_view line) {
  return line.find('\0') == std::string_view::npos && json::accept(line.begin(), line.end());
}

std::string JsonField::read(std::string_view line, std::string& text) const {
  text.clear();
  // The library takes a zero byte for the end of the text.
  if (const size_t zero = line.find('\0'); zero != std::string_view::npos)
    return fmt::format("it is no JSON: column {}: a zero byte", zero + 1);
  FieldHandler handler(name_, text);
  json::sax_parse(line.begin(), line.end(), &handler);
  return handler.problem(line.size());
}

}  // namespace zrt::runtime::data
