#include "runtime/data/chat/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "runtime/data/chat/text_functions.h"

namespace zrt::runtime::data::chat {
namespace {

// Python's have no bounds; these end with a message.
int64_t of_integers(std::string_view sign, int64_t a, int64_t b) {
  int64_t result = 0;
  bool over = false;
  if (sign == "+") {
    over = __builtin_add_overflow(a, b, &result);
  } else if (sign == "-") {
    over = __builtin_sub_overflow(a, b, &result);
  } else if (sign == "*") {
    over = __builtin_mul_overflow(a, b, &result);
  } else if (b == -1) {
    over = sign == "//" && __builtin_sub_overflow(int64_t{0}, a, &result);
  } else if (sign == "//") {
    result = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  } else if (sign == "%") {
    result = a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
  } else {
    throw core::ConfigError(fmt::format("the operator '{}' is not known", sign));
  }
  if (over) throw core::ConfigError("a number is too large");
  return result;
}

constexpr size_t longest_list = 1'000'000;

}  // namespace

Value element_of(const Value& object, const Value& key) {
  if (object.undefined()) {
    throw core::ConfigError(fmt::format("'{}' is not defined", object.name()));
  }
  if (object.map() != nullptr) {
    const Value* found = key.text() != nullptr ? object.find(key.text()->bytes) : nullptr;
    return found != nullptr ? *found : Value(Undefined{key.text() != nullptr ? key.text()->bytes : ""});
  }
  if (key.integer() != nullptr && (object.list() != nullptr || object.text() != nullptr)) {
    const List all = elements_of(object);
    const int64_t at = *key.integer() + (*key.integer() < 0 ? static_cast<int64_t>(all.size()) : 0);
    if (at >= 0 && at < static_cast<int64_t>(all.size())) return all[static_cast<size_t>(at)];
  }
  return Undefined{key.text() != nullptr ? key.text()->bytes : "element"};
}

int64_t whole_number(double value) {
  constexpr double most = 9e18;
  if (!(value > -most && value < most)) throw core::ConfigError("a number is too large");
  return static_cast<int64_t>(value);
}

Value slice_of(const Value& object, const Value& begin, const Value& end, const Value& step) {
  const bool open = begin.undefined() || begin.none(), to_end = end.undefined() || end.none();
  const List all = elements_of(object);
  const auto count = static_cast<int64_t>(all.size());
  const int64_t by = step.undefined() || step.none() ? 1 : std::clamp(integer_of(step), -count - 1, count + 1);
  if (by == 0) throw core::ConfigError("a slice has a step of 0");
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? count : count - 1;
  const auto bound = [&](const Value& value) {
    const int64_t at = integer_of(value);
    return std::clamp(at < 0 ? at + count : at, low, high);
  };
  const int64_t from = open ? (by > 0 ? low : high) : bound(begin), to = to_end ? (by > 0 ? high : low) : bound(end);
  List taken;
  for (int64_t i = from; by > 0 ? i < to : i > to; i += by) taken.push_back(all[static_cast<size_t>(i)]);
  if (object.text() == nullptr) return taken;
  Text text;
  for (const Value& point : taken) text += *point.text();
  return text;
}

List elements_of(const Value& value) {
  List all;
  if (const List* list = value.list()) return *list;
  if (const Map* map = value.map()) {
    for (const auto& [name, entry] : *map) all.emplace_back(Text(name));
  } else if (const Text* text = value.text()) {
    const std::vector<size_t> at = code_points(*text);
    for (size_t i = 0; i + 1 < at.size(); ++i) all.emplace_back(text->part(at[i], at[i + 1]));
  } else if (!value.undefined()) {
    throw core::ConfigError(fmt::format("{} has no elements to go through", value.kind()));
  }
  return all;
}

bool contains(const Value& container, const Value& element) {
  if (container.text() != nullptr) return container.text()->bytes.find(text_of(element).bytes) != std::string::npos;
  const List all = elements_of(container);
  return std::any_of(all.begin(), all.end(), [&](const Value& each) { return each == element; });
}

Value combine(std::string_view sign, const Value& left, const Value& right) {
  if (sign == "==") return left == right;
  if (sign == "!=") return !(left == right);
  if (sign == "in") return contains(right, left);
  if (sign == "not in") return !contains(right, left);
  if (sign == "~") {
    Text text = to_text(left);
    text += to_text(right);
    return text;
  }
  const bool texts = left.text() != nullptr && right.text() != nullptr;
  const bool numbers = left.number() && right.number();
  if (sign == "+" && texts) {
    Text text = *left.text();
    text += *right.text();
    return text;
  }
  if (sign == "+" && left.list() != nullptr && right.list() != nullptr) {
    List all = *left.list();
    if (all.size() + right.list()->size() > longest_list) throw core::ConfigError("the template makes a list too long");
    all.insert(all.end(), right.list()->begin(), right.list()->end());
    return all;
  }
  if (texts && (sign == "<" || sign == "<=" || sign == ">" || sign == ">=")) {
    const int order = left.text()->bytes.compare(right.text()->bytes);
    return sign == "<" ? order < 0 : sign == "<=" ? order <= 0 : sign == ">" ? order > 0 : order >= 0;
  }
  if (!numbers) {
    throw core::ConfigError(fmt::format("{}{} and {}{} do not go together by '{}'", left.kind(),
                                        left.undefined() ? fmt::format(" ('{}')", left.name()) : "", right.kind(),
                                        right.undefined() ? fmt::format(" ('{}')", right.name()) : "", sign));
  }
  const double a = left.as_number(), b = right.as_number();
  if (sign == "<") return a < b;
  if (sign == "<=") return a <= b;
  if (sign == ">") return a > b;
  if (sign == ">=") return a >= b;
  if ((sign == "/" || sign == "//" || sign == "%") && b == 0) throw core::ConfigError("a division by 0");
  if (sign == "/") return a / b;
  if (left.real() == nullptr && right.real() == nullptr) return of_integers(sign, integer_of(left), integer_of(right));
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "//") return std::floor(a / b);
  if (sign == "%") return a - b * std::floor(a / b);
  throw core::ConfigError(fmt::format("the operator '{}' is not known", sign));
}

}  // namespace zrt::runtime::data::chat
