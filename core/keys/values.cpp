#include "core/keys/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <sstream>
#include <tuple>

#include "core/error.h"
#include "core/keys/text.h"

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

Legal legal_range(const Key& key) {
  Legal range = key.legal;
  if ((key.types & t_natural) != 0) range.low = std::max(range.low, 0.0);
  return range;
}

Legal range_of(const Value& value) {
  return value.key == nullptr ? Legal{} : legal_range(*value.key);
}

// Whole numbers without a fraction.
std::string number_text(double number) {
  return std::trunc(number) == number && std::abs(number) <= 0x1p53 ? std::to_string(static_cast<int64_t>(number))
                                                                    : printed(number);
}

[[noreturn]] void refuse_range(const Value& value) {
  refuse(value, "is out of range; legal: " + range_text(*value.key) + ".");
}

}  // namespace

std::string_view from_name(From from) {
  constexpr std::string_view names[] = {"file", "command line", "default", "inferred", "folder"};
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
  return legal_text({.name = "", .types = types, .fallback = nullptr});
}

std::string range_text(const Key& key) {
  const Legal range = legal_range(key);
  const auto [low, high, below] = std::tuple(range.low, range.high, range.below);
  if (high == infinity) return low == -infinity ? "" : "at least " + number_text(low);
  if (below) return "at least " + number_text(low) + " and below " + number_text(high);
  return (low == -infinity ? "at most " : number_text(low) + " to ") + number_text(high);
}

std::string legal_text(const Key& key) {
  std::vector<std::string> texts;
  const auto add = [&](Types bit, const std::string& name) {
    if ((key.types & bit) != 0) texts.push_back(name);
  };
  std::string range = range_text(key);
  if (!range.empty()) range = (range.starts_with("at") ? " of " : " from ") + range;
  add(t_bool, "true");
  add(t_bool, "false");
  add(t_int, "an integer" + range);
  add(t_real, "a number" + range);
  if (*key.legal.choices == '\0') add(t_text, "a string");
  for (const std::string& choice : choices_of(key)) texts.push_back('"' + choice + '"');
  add(t_list, (key.types & t_real) == 0 && !range.empty() ? "a list of numbers" + range : "a list");
  add(t_object, "an object");
  add(t_auto, "\"auto\"");
  add(t_null, "null");
  if (texts.empty()) return (key.types & t_any) != 0 ? "any value" : "leaving the key out";
  std::string text = texts[0];
  for (size_t i = 1; i < texts.size(); ++i)
    text += (i + 1 < texts.size() && texts.size() > 2 ? ", " : " or ") + texts[i];
  return text;
}

std::vector<std::string> choices_of(const Key& key) {
  std::istringstream words(key.legal.choices);
  return {std::istream_iterator<std::string>(words), {}};
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

int64_t Values::integer(std::string_view path) const {
  const Legal range = range_of(at(path));
  // -2^63 and 2^63 are doubles; the second is one too many.
  const int64_t low = range.low == -infinity ? INT64_MIN : static_cast<int64_t>(range.low);
  const int64_t high = range.high == infinity ? INT64_MAX : static_cast<int64_t>(range.high) - (range.below ? 1 : 0);
  int64_t result = std::clamp<int64_t>(0, low, high);
  check([&] {
    const Value& value = at(path);
    const auto number = whole(value.value);
    if (!number) refuse(value, "must be an integer.");
    result = std::clamp(*number, low, high);
    if (result != *number) refuse_range(value);
  });
  if (wrong(path)) doubtful_ = true;
  return result;
}

std::optional<int64_t> Values::optional_integer(std::string_view path) const {
  return is_null(path) ? std::nullopt : std::optional(integer(path));
}

double Values::real(std::string_view path) const {
  const Legal range = range_of(at(path));
  double result = range.holds(0) ? 0 : range.low;
  check([&] {
    const Value& value = at(path);
    if (!value.value.is_number()) refuse(value, "must be a number.");
    const auto number = value.value.get<double>();
    if (!range.holds(number)) refuse_range(value);
    result = number;
  });
  if (wrong(path)) doubtful_ = true;
  return result;
}

std::vector<double> Values::reals(std::string_view path, size_t count) const {
  const Value& value = at(path);
  const Legal range = range_of(value);
  std::vector<double> numbers;
  for (const json& number : value.value) {
    if (number.is_number() && range.holds(number.get<double>())) numbers.push_back(number.get<double>());
  }
  if (numbers.size() != count || value.value.size() != count) {
    const std::string range_of_each = range_text(*value.key);
    refuse(value, "must be " + std::to_string(count) + " numbers, each " +
                      (range_of_each.starts_with("at") ? "" : "from ") + range_of_each + "; the default is " +
                      value.key->fallback + ".");
  }
  return numbers;
}

std::string Values::choice(std::string_view path) const {
  const Value& value = at(path);
  const bool any_case = (value.key->types & t_any_case) != 0;
  if (value.value.is_string()) {
    const auto text = value.value.get<std::string>();
    for (const std::string& legal : choices_of(*value.key)) {
      if (legal == text || (any_case && in_lower_case(legal) == in_lower_case(text))) return legal;
    }
  }
  refuse(value, "is not legal; legal: " + legal_text(*value.key) + ".");
}

void Values::take(std::string_view path, json value, From from, const std::string& place) {
  Value& entry = values_[static_cast<size_t>(&at(path) - values_.data())];
  entry.value = std::move(value);
  entry.from = from;
  entry.place = place;
  entry.line = 0;
}

void Values::infer(std::string_view path, json value, const std::string& meaning) {
  take(path, std::move(value), From::inferred, "inferred");
  meanings_[std::string(path)] = meaning;
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
