#include "core/keys/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"

namespace zrt::core::keys {
namespace {

using nlohmann::json;

std::optional<int64_t> whole(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number <= static_cast<uint64_t>(INT64_MAX) ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  // -2^63 and 2^63 are doubles; the second is one too many.
  if (!(number >= -0x1p63 && number < 0x1p63) || std::trunc(number) != number) return std::nullopt;
  return static_cast<int64_t>(number);
}

// "500000000" and "5_000".
std::optional<int64_t> whole_text(const std::string& text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i - 1] != '-';
    if (text[i] != '_') {
      digits += text[i];
    } else if (!between) {
      return std::nullopt;
    }
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::optional<bool> truth_text(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c); });
  if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  return std::nullopt;
}

std::optional<json> coerce_text(Types types, bool strict, const std::string& text) {
  if ((types & t_text) != 0 || ((types & t_auto) != 0 && text == "auto")) return text;
  if (!strict) return std::nullopt;
  if ((types & t_bool) != 0) {
    if (const auto truth = truth_text(text)) return *truth;
  }
  if ((types & t_int) != 0) {
    if (const auto number = whole_text(text)) return *number;
  }
  if ((types & t_real) != 0) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && std::isfinite(number)) return number;
  }
  if ((types & t_list) != 0) return json::array({text});
  return std::nullopt;
}

std::optional<json> coerce_number(Types types, const json& value) {
  if ((types & t_int) != 0) {
    if (const auto number = whole(value)) return *number;
  }
  if ((types & t_real) != 0 && std::isfinite(value.get<double>())) return value.get<double>();
  if ((types & t_bool) != 0 && (value == 0 || value == 1)) return value == 1;
  return std::nullopt;
}

}  // namespace

std::string_view from_name(From from) {
  constexpr std::string_view names[] = {"file", "command line", "default", "inferred"};
  return names[static_cast<size_t>(from)];
}

std::string printed(const json& value) {
  constexpr size_t limit = 120;
  std::string text = value.dump(-1, ' ', true);
  return text.size() <= limit ? text : text.substr(0, limit) + "…";
}

std::optional<json> coerce(Types types, bool strict, const json& value) {
  std::optional<json> result;
  if ((types & t_any) != 0) {
    result = value;
  } else if (value.is_boolean()) {
    if ((types & t_bool) != 0) {
      result = value;
    } else if (strict && (types & t_int) != 0) {
      result = value.get<bool>() ? 1 : 0;
    }
  } else if (value.is_number()) {
    result = coerce_number(types, value);
  } else if (value.is_string()) {
    result = coerce_text(types, strict, value.get<std::string>());
  } else if ((value.is_null() && (types & t_null) != 0) || (value.is_array() && (types & t_list) != 0) ||
             (value.is_object() && (types & t_object) != 0)) {
    result = value;
  }
  if (result && (types & t_natural) != 0 && result->is_number() && *result < 0) return std::nullopt;
  return result;
}

std::string types_text(Types types) {
  std::string text;
  const auto add = [&](Types bit, const char* name) {
    if ((types & bit) != 0) text += (text.empty() ? "" : " or ") + std::string(name);
  };
  add(t_bool, "true or false");
  add(t_int, (types & t_natural) != 0 ? "an integer of at least 0" : "an integer");
  add(t_real, "a number");
  add(t_text, "a string");
  add(t_list, "a list");
  add(t_object, "an object");
  add(t_auto, "\"auto\"");
  add(t_null, "null");
  return text.empty() ? "leaving the key out" : text;
}

std::string shown(const Value& value) {
  return value.path + " = " + printed(value.value) + " (" + value.place + ")";
}

std::string without_effect(const Value& value, std::string_view why) {
  return shown(value) + " has no effect" + (why.empty() ? "." : ": " + std::string(why) + ".");
}

void refuse(const Value& value, const std::string& what) {
  throw Refusal(shown(value) + " " + what, value.path, value.line);
}

void Values::add(Value value) {
  index_[value.path] = values_.size();
  values_.push_back(std::move(value));
}

const Value* Values::find(std::string_view path) const {
  if (wrong(path)) doubtful_ = true;
  const auto found = index_.find(path);
  return found == index_.end() ? nullptr : &values_[found->second];
}

const Value& Values::at(std::string_view path) const {
  if (const Value* value = find(path)) return *value;
  throw ProgramError("the key table has no entry '" + std::string(path) + "'.");
}

bool Values::given(std::string_view path) const {
  const Value* value = find(path);
  return value != nullptr && (value->from == From::file || value->from == From::command_line);
}

void Values::gather(const ConfigError& error) const {
  problems.add(error);
  if (const auto* refusal = dynamic_cast<const Refusal*>(&error)) mark_wrong(refusal->path);
}

int64_t Values::integer(std::string_view path, int64_t low, int64_t high) const {
  int64_t result = low;
  check([&] {
    const Value& value = at(path);
    const auto number = whole(value.value);
    if (!number) refuse(value, "must be an integer.");
    result = std::clamp(*number, low, high);
    if (result != *number) {
      refuse(value, "is out of range; legal: " +
                        (high == INT64_MAX ? "at least " + std::to_string(low)
                                           : std::to_string(low) + " to " + std::to_string(high)) +
                        ".");
    }
  });
  if (wrong(path)) doubtful_ = true;
  return result;
}

double Values::real(std::string_view path, double low, double high) const {
  double result = low;
  check([&] {
    const Value& value = at(path);
    if (!value.value.is_number()) refuse(value, "must be a number.");
    const auto number = value.value.get<double>();
    if (!(number >= low && number <= high)) {
      refuse(value, "is out of range; legal: " +
                        (std::isinf(high) ? "at least " + printed(low) : printed(low) + " to " + printed(high)) + ".");
    }
    result = number;
  });
  if (wrong(path)) doubtful_ = true;
  return result;
}

void Values::infer(std::string_view path, json value, const std::string& meaning) {
  Value& entry = values_[static_cast<size_t>(&at(path) - values_.data())];
  entry.value = std::move(value);
  entry.from = From::inferred;
  entry.place = "inferred";
  entry.line = 0;
  meanings_[entry.path] = meaning;
}

const Value* Values::left_out(std::string_view path) const {
  const auto found = std::find_if(autos_.begin(), autos_.end(), [&](const Value& value) { return value.path == path; });
  return found == autos_.end() ? nullptr : &*found;
}

void Values::missing(std::string_view path, const std::string& what) const {
  const Value* open = left_out(path);
  const std::string how = open == nullptr ? "" : " (\"auto\" in " + open->place + " counts as left out)";
  throw Refusal(std::string(path) + " is missing" + how + "; " + what, std::string(path), open ? open->line : 0);
}

void Values::warn_of_autos() {
  std::stable_sort(autos_.begin(), autos_.end(), [](const Value& a, const Value& b) { return a.line < b.line; });
  std::string list;
  for (const Value& open : autos_) {
    const Value* used = find(open.path);
    if (used == nullptr) continue;  // a section, or a key that nothing reads
    const auto meaning = meanings_.find(open.path);
    const bool told = meaning != meanings_.end() && !meaning->second.empty();
    list += (list.empty() ? "" : ", ") + open.path + " = " + (told ? meaning->second : printed(used->value)) + " (" +
            (open.line > 0 ? "line " + std::to_string(open.line) : open.place) + ")";
  }
  if (!list.empty()) warnings.push_back("\"auto\" counts as left out. What is used instead: " + list + ".");
}

}  // namespace zrt::core::keys
