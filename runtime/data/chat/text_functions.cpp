#include "runtime/data/chat/text_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace zrt::runtime::data::chat {

const Value* argument(const Arguments& arguments, size_t at, std::string_view name) {
  if (at < arguments.list.size()) return &arguments.list[at];
  for (const auto& [key, value] : arguments.named) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Text& text_of(const Value& value) {
  if (const Text* text = value.text()) return *text;
  throw core::ConfigError(fmt::format("{}{} stands where a text is needed", value.kind(),
                                      value.undefined() ? fmt::format(" ('{}')", value.name()) : ""));
}

int64_t integer_of(const Value& value) {
  if (const int64_t* integer = value.integer()) return *integer;
  if (const bool* boolean = value.boolean()) return *boolean ? 1 : 0;
  throw core::ConfigError(fmt::format("{} stands where an integer is needed", value.kind()));
}

namespace {

Text with_case(Text text, bool (*upper)(const Text&, size_t)) {
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    char& c = text.bytes[i];
    if (upper(text, i)) {
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    } else if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
  }
  return text;
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
Value strip_ends(const Value& value, const Arguments& arguments, bool left, bool right) {
  const Value* characters = argument(arguments, 0, "chars");
  if (characters == nullptr || characters->none()) return strip(text_of(value), left, right);
  return strip(text_of(value), left, right, text_of(*characters).bytes);
}

// One text, or several of which one will do.
List ends_of(const Arguments& arguments) {
  const Value* with = argument(arguments, 0, "prefix");
  if (with == nullptr) throw core::ConfigError("'startswith' and 'endswith' take a text");
  return with->list() != nullptr ? *with->list() : List{*with};
}

}  // namespace

Value upper(const Value& value, const Arguments&) {
  return with_case(text_of(value), [](const Text&, size_t) { return true; });
}
Value lower(const Value& value, const Arguments&) {
  return with_case(text_of(value), [](const Text&, size_t) { return false; });
}
Value capitalize(const Value& value, const Arguments&) {
  return with_case(text_of(value), [](const Text&, size_t i) { return i == 0; });
}
Value title(const Value& value, const Arguments&) {
  return with_case(text_of(value), [](const Text& t, size_t i) { return i == 0 || !is_letter(t.bytes[i - 1]); });
}

Value stripped(const Value& value, const Arguments& arguments) {
  return strip_ends(value, arguments, true, true);
}
Value left_stripped(const Value& value, const Arguments& arguments) {
  return strip_ends(value, arguments, true, false);
}
Value right_stripped(const Value& value, const Arguments& arguments) {
  return strip_ends(value, arguments, false, true);
}

Value replace(const Value& value, const Arguments& arguments) {
  const Value *from = argument(arguments, 0, "old"), *to = argument(arguments, 1, "new");
  if (from == nullptr || to == nullptr || text_of(*from).bytes.empty()) {
    throw core::ConfigError("'replace' takes a text to look for and one to put there");
  }
  const Text& text = text_of(value);
  const std::string& old = text_of(*from).bytes;
  Text result;
  size_t at = 0;
  for (size_t found = text.bytes.find(old); found != std::string::npos; found = text.bytes.find(old, at)) {
    result += text.part(at, found);
    result += text_of(*to);
    at = found + old.size();
  }
  result += text.part(at, text.bytes.size());
  return result;
}

Value split(const Value& value, const Arguments& arguments) {
  const Value *separator = argument(arguments, 0, "sep"), *most = argument(arguments, 1, "maxsplit");
  const Text& text = text_of(value);
  int64_t left = most != nullptr ? integer_of(*most) : -1;
  List parts;
  if (separator == nullptr || separator->none()) {
    const std::vector<size_t> at = code_points(text);
    Text word;
    for (size_t i = 0; i + 1 < at.size(); ++i) {
      const Text point = text.part(at[i], at[i + 1]);
      if (!strip(point, true, false).bytes.empty()) {
        word += point;
      } else if (!word.bytes.empty()) {
        parts.emplace_back(std::exchange(word, {}));
      }
    }
    if (!word.bytes.empty()) parts.emplace_back(word);
    return parts;
  }
  const std::string& by = text_of(*separator).bytes;
  if (by.empty()) throw core::ConfigError("'split' takes a separator that is not empty");
  size_t at = 0;
  for (size_t found = text.bytes.find(by); found != std::string::npos && left != 0; --left) {
    parts.emplace_back(text.part(at, found));
    at = found + by.size();
    found = text.bytes.find(by, at);
  }
  parts.emplace_back(text.part(at, text.bytes.size()));
  return parts;
}

Value starts_with(const Value& value, const Arguments& arguments) {
  const List several = ends_of(arguments);
  return std::any_of(several.begin(), several.end(),
                     [&](const Value& one) { return text_of(value).bytes.starts_with(text_of(one).bytes); });
}
Value ends_with(const Value& value, const Arguments& arguments) {
  const List several = ends_of(arguments);
  return std::any_of(several.begin(), several.end(),
                     [&](const Value& one) { return text_of(value).bytes.ends_with(text_of(one).bytes); });
}

Value find(const Value& value, const Arguments& arguments) {
  const Value* part = argument(arguments, 0, "sub");
  if (part == nullptr) throw core::ConfigError("'find' takes a text");
  const size_t found = text_of(value).bytes.find(text_of(*part).bytes);
  if (found == std::string::npos) return int64_t{-1};
  return length(text_of(value).part(0, found));
}

}  // namespace zrt::runtime::data::chat
