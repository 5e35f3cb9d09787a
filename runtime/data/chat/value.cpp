#include "runtime/data/chat/value.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/utf8.h"

namespace zrt::runtime::data::chat {
namespace {

constexpr size_t longest_text = size_t{64} << 20;

// Bytes of the code point that begins with this byte.
size_t width_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// Python's strip() takes such characters away.
bool is_space(std::string_view point) {
  if (point.size() != 1) return core::is_wide_space(point);
  const char c = point[0];
  return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f');
}

constexpr int deepest_value = 100;  // lists and mappings in each other

void refuse_depth(int depth) {
  if (depth > deepest_value) throw core::ConfigError("lists and mappings of the template stand too deep in each other");
}

// Goes through a value; lists that share one may be many more than there are.
class Walk {
 public:
  void check(const Value& value, int depth) {
    count(depth);
    if (const List* list = value.list()) {
      for (const Value& element : *list) check(element, depth + 1);
    }
    if (const Map* map = value.map()) {
      for (const auto& [name, entry] : *map) check(entry, depth + 1);
    }
  }
  Value copy(const Value& value, int depth) {
    count(depth);
    if (const List* list = value.list()) {
      List all;
      for (const Value& element : *list) all.push_back(copy(element, depth + 1));
      return all;
    }
    if (const Map* map = value.map()) {
      Map all;
      for (const auto& [name, entry] : *map) all.emplace_back(name, copy(entry, depth + 1));
      return all;
    }
    return value;
  }

 private:
  void count(int depth) {
    refuse_depth(depth);
    if (--left_ < 0) throw core::ConfigError("lists and mappings of the template are too large");
  }
  int64_t left_ = 1'000'000;
};

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = nlohmann::json(value).dump();  // the shortest that reads back, as Python's
  return text;
}

void dump(const Value& value, int indent, int depth, Text& to) {
  refuse_depth(depth);
  const auto fresh_line = [&](int levels) {
    if (indent >= 0) to += Text("\n" + std::string(static_cast<size_t>(indent * levels), ' '));
  };
  const auto separated = [&](size_t at, size_t size, const auto& element) {
    if (at > 0) to += Text(indent >= 0 ? "," : ", ");
    fresh_line(depth + 1);
    element();
    if (at + 1 == size) fresh_line(depth);
  };
  const auto quoted = [&](const Text& text) {
    to += Text("\"");
    for (size_t i = 0; i < text.bytes.size();) {
      const size_t end = std::min(i + width_of(text.bytes[i]), text.bytes.size());
      const Text point = text.part(i, end);
      const std::string escaped =
          nlohmann::json(point.bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      to += Text(std::string_view(escaped).substr(1, escaped.size() - 2), point.marks[0]);
      i = end;
    }
    to += Text("\"");
  };
  if (const List* list = value.list()) {
    to += Text("[");
    for (size_t i = 0; i < list->size(); ++i) {
      separated(i, list->size(), [&] { dump((*list)[i], indent, depth + 1, to); });
    }
    to += Text("]");
  } else if (const Map* map = value.map()) {
    to += Text("{");
    for (size_t i = 0; i < map->size(); ++i) {
      separated(i, map->size(), [&] {
        quoted(Text((*map)[i].first));
        to += Text(": ");
        dump((*map)[i].second, indent, depth + 1, to);
      });
    }
    to += Text("}");
  } else if (const Text* text = value.text()) {
    quoted(*text);
  } else if (value.none()) {
    to += Text("null");
  } else if (const bool* boolean = value.boolean()) {
    to += Text(*boolean ? "true" : "false");
  } else if (value.number()) {
    to += to_text(value);
  } else {
    throw core::ConfigError(fmt::format("{} cannot be written as JSON", value.kind()));
  }
}

}  // namespace

Text& Text::operator+=(const Text& more) {
  if (bytes.size() + more.bytes.size() > longest_text) {
    throw core::ConfigError(fmt::format("the template makes a text of more than {} bytes", longest_text));
  }
  bytes += more.bytes, marks += more.marks;
  return *this;
}

Text Text::part(size_t begin, size_t end) const {
  Text cut;
  cut.bytes = bytes.substr(begin, end - begin), cut.marks = marks.substr(begin, end - begin);
  return cut;
}

double Value::as_number() const {
  if (const bool* value = boolean()) return *value ? 1 : 0;
  if (const int64_t* value = integer()) return static_cast<double>(*value);
  return *real();
}

bool Value::truth() const {
  if (number()) return as_number() != 0;
  if (const Text* value = text()) return !value->bytes.empty();
  if (const List* value = list()) return !value->empty();
  if (const Map* value = map()) return !value->empty();
  return function() != nullptr;
}

std::string_view Value::kind() const {
  constexpr std::string_view kinds[] = {"an undefined value", "None",   "a boolean", "an integer",
                                        "a number",           "a text", "a list",    "a mapping",
                                        "a function"};
  return kinds[value_.index()];
}

const Value* Value::find(std::string_view key) const {
  const Map* entries = map();
  if (entries == nullptr) return nullptr;
  for (const auto& [name, value] : *entries) {
    if (name == key) return &value;
  }
  return nullptr;
}

bool operator==(const Value& a, const Value& b) {
  if (a.number() && b.number()) return a.as_number() == b.as_number();
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes == b.text()->bytes;
  if (a.list() != nullptr && b.list() != nullptr) return *a.list() == *b.list();
  if (a.map() != nullptr && b.map() != nullptr) {
    if (a.map()->size() != b.map()->size()) return false;
    for (const auto& [name, value] : *a.map()) {
      const Value* other = b.find(name);
      if (other == nullptr || !(value == *other)) return false;
    }
    return true;
  }
  return (a.none() && b.none()) || (a.undefined() && b.undefined());
}

Value from_json(const nlohmann::ordered_json& json, char mark) {
  if (json.is_null()) return None{};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return Text(json.get_ref<const std::string&>(), mark);
  if (json.is_array()) {
    List list;
    for (const auto& element : json) list.push_back(from_json(element, mark));
    return list;
  }
  Map map;
  for (const auto& [name, value] : json.items()) map.emplace_back(name, from_json(value, mark));
  return map;
}

Text to_json(const Value& value, int indent) {
  Text text;
  dump(value, indent, 0, text);
  return text;
}

Text to_text(const Value& value) {
  if (const Text* text = value.text()) return *text;
  if (value.undefined()) return {};
  if (value.none()) return Text("None");
  if (const bool* boolean = value.boolean()) return Text(*boolean ? "True" : "False");
  if (const int64_t* integer = value.integer()) return Text(fmt::to_string(*integer));
  if (const double* real = value.real()) return Text(number_text(*real));
  throw core::ConfigError(
      fmt::format("{} is printed as it is, which only Python can; known are texts and numbers", value.kind()));
}

std::vector<size_t> code_points(const Text& text) {
  std::vector<size_t> begins;
  for (size_t i = 0; i < text.bytes.size(); i += width_of(text.bytes[i])) begins.push_back(i);
  begins.push_back(text.bytes.size());
  return begins;
}

Value copied(const Value& value) {
  return Walk().copy(value, 0);
}

void check_depth(const Value& value) {
  Walk().check(value, 0);
}

int64_t length(const Text& text) {
  return static_cast<int64_t>(code_points(text).size()) - 1;
}

namespace {

template <class Goes>
Text strip_if(const Text& text, bool left, bool right, const Goes& goes) {
  const std::vector<size_t> at = code_points(text);
  const std::string_view bytes = text.bytes;
  size_t begin = 0, end = at.size() - 1;
  const auto point = [&](size_t i) { return bytes.substr(at[i], at[i + 1] - at[i]); };
  while (left && begin < end && goes(point(begin))) ++begin;
  while (right && begin < end && goes(point(end - 1))) --end;
  return text.part(at[begin], at[end]);
}

}  // namespace

Text strip(const Text& text, bool left, bool right) {
  return strip_if(text, left, right, is_space);
}

Text strip(const Text& text, bool left, bool right, std::string_view characters) {
  return strip_if(text, left, right,
                  [&](std::string_view point) { return characters.find(point) != std::string_view::npos; });
}

}  // namespace zrt::runtime::data::chat
