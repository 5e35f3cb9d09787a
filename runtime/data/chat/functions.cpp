#include "runtime/data/chat/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/error.h"
#include "runtime/data/chat/operators.h"
#include "runtime/data/chat/text_functions.h"

namespace zrt::runtime::data::chat {
namespace {

using Filter = Value (*)(const Value&, const Arguments&);
using Method = Value (*)(const Value&, const Arguments&);

Value join(const Value& value, const Arguments& arguments) {
  const Value *by = argument(arguments, 0, "d"), *attribute = argument(arguments, 1, "attribute");
  Text joined;
  bool first = true;
  for (const Value& element : elements_of(value)) {
    if (!std::exchange(first, false) && by != nullptr) joined += to_text(*by);
    joined += to_text(attribute != nullptr ? element_of(element, *attribute) : element);
  }
  return joined;
}

Value length_of(const Value& value, const Arguments&) {
  if (const Text* text = value.text()) return length(*text);
  if (const List* list = value.list()) return static_cast<int64_t>(list->size());
  if (const Map* map = value.map()) return static_cast<int64_t>(map->size());
  if (value.undefined()) return int64_t{0};
  throw core::ConfigError(fmt::format("{} has no length", value.kind()));
}

Value defaulted(const Value& value, const Arguments& arguments) {
  const Value *other = argument(arguments, 0, "default_value"), *falsy = argument(arguments, 1, "boolean");
  const bool missing = value.undefined() || (falsy != nullptr && falsy->truth() && !value.truth());
  if (!missing) return value;
  return other != nullptr ? *other : Value(Text());
}

Value tojson(const Value& value, const Arguments& arguments) {
  const Value *unicode = argument(arguments, 0, "ensure_ascii"), *indent = argument(arguments, 1, "indent");
  if ((unicode != nullptr && unicode->truth()) || arguments.list.size() > 2) {
    throw core::ConfigError("'tojson' is known with 'indent' alone");
  }
  if (indent == nullptr || indent->none()) return to_json(value);
  constexpr int64_t most = 16;
  const int64_t by = integer_of(*indent);
  if (by < 0 || by > most) throw core::ConfigError(fmt::format("'tojson' is known with an indent of 0 to {}", most));
  return to_json(value, static_cast<int>(by));
}

Value items(const Value& value, const Arguments&) {
  List pairs;
  if (value.undefined()) return pairs;
  if (value.map() == nullptr) throw core::ConfigError(fmt::format("{} has no items", value.kind()));
  for (const auto& [name, entry] : *value.map()) pairs.emplace_back(List{Value(Text(name)), entry});
  return pairs;
}
Value keys(const Value& value, const Arguments&) {
  return elements_of(value);
}
Value values(const Value& value, const Arguments&) {
  List all;
  for (const auto& [name, entry] : *value.map()) all.push_back(entry);
  return all;
}
Value get(const Value& value, const Arguments& arguments) {
  const Value *key = argument(arguments, 0, "key"), *other = argument(arguments, 1, "default");
  if (key == nullptr) throw core::ConfigError("'get' takes a key");
  const Value* found = key->text() != nullptr ? value.find(key->text()->bytes) : nullptr;
  if (found != nullptr) return *found;
  return other != nullptr ? *other : Value(None{});
}

Value append(const Value& value, const Arguments& arguments) {
  if (arguments.list.size() != 1) throw core::ConfigError("'append' takes one value");
  value.list()->push_back(copied(arguments.list[0]));
  return None{};
}

Value as_list(const Value& value, const Arguments&) {
  return elements_of(value);
}
Value first(const Value& value, const Arguments&) {
  const List all = elements_of(value);
  return all.empty() ? Value() : all.front();
}
Value last(const Value& value, const Arguments&) {
  const List all = elements_of(value);
  return all.empty() ? Value() : all.back();
}
Value reversed(const Value& value, const Arguments&) {
  List all = elements_of(value);
  std::reverse(all.begin(), all.end());
  return all;
}
Value as_text(const Value& value, const Arguments&) {
  return to_text(value);
}
Value same(const Value& value, const Arguments&) {
  return value;
}
Value as_integer(const Value& value, const Arguments&) {
  if (value.integer() != nullptr) return value;
  if (value.number()) return whole_number(value.as_number());
  try {
    return static_cast<int64_t>(std::stoll(text_of(value).bytes));
  } catch (const std::logic_error&) {
    return int64_t{0};
  }
}

Value sorted_items(const Value& value, const Arguments& arguments) {
  if (!arguments.list.empty() || !arguments.named.empty()) {
    throw core::ConfigError("'dictsort' is known without arguments alone");
  }
  const Value pairs = items(value, {});
  const auto key = [](const Value& pair) { return lower(pair.list()->front(), {}); };
  std::stable_sort(pairs.list()->begin(), pairs.list()->end(),
                   [&](const Value& a, const Value& b) { return key(a).text()->bytes < key(b).text()->bytes; });
  return pairs;
}

template <bool Most>
Value extreme(const Value& value, const Arguments&) {
  const List all = elements_of(value);
  Value best;
  for (const Value& each : all) {
    if (best.undefined() || combine(Most ? ">" : "<", each, best).truth()) best = each;
  }
  return best;
}

// Filters of text take what is no text as it would be printed.
template <Filter filter>
Value printed(const Value& value, const Arguments& arguments) {
  return filter(value.text() != nullptr ? value : Value(to_text(value)), arguments);
}

template <bool Keep, bool Attribute>
Value selected(const Value& value, const Arguments& arguments) {
  size_t next = Attribute ? 1 : 0;
  const Value* attribute = Attribute ? argument(arguments, 0, "attribute") : nullptr;
  if (Attribute && attribute == nullptr) throw core::ConfigError("'selectattr' takes the name of an attribute");
  const Value* test = argument(arguments, next, "test");
  Arguments of_test;
  for (++next; next < arguments.list.size(); ++next) of_test.list.push_back(arguments.list[next]);
  List kept;
  for (const Value& element : elements_of(value)) {
    const Value looked_at = attribute != nullptr ? element_of(element, *attribute) : element;
    const bool holds = test != nullptr ? apply_test(text_of(*test).bytes, looked_at, of_test) : looked_at.truth();
    if (holds == Keep) kept.push_back(element);
  }
  return kept;
}

Value mapped(const Value& value, const Arguments& arguments) {
  const Value* attribute = arguments.list.empty() ? argument(arguments, 1, "attribute") : nullptr;
  List all;
  if (attribute == nullptr && arguments.list.empty()) {
    throw core::ConfigError("'map' takes the name of a filter, or attribute=");
  }
  Arguments of_filter;
  for (size_t i = 1; i < arguments.list.size(); ++i) of_filter.list.push_back(arguments.list[i]);
  for (const Value& element : elements_of(value)) {
    if (attribute != nullptr) {
      all.push_back(element_of(element, *attribute));
    } else {
      all.push_back(apply_filter(text_of(arguments.list.at(0)).bytes, element, of_filter));
    }
  }
  return all;
}

const std::map<std::string_view, Filter>& filters() {
  static const std::map<std::string_view, Filter> known{{"trim", printed<stripped>},
                                                        {"upper", printed<upper>},
                                                        {"lower", printed<lower>},
                                                        {"capitalize", printed<capitalize>},
                                                        {"title", printed<title>},
                                                        {"replace", printed<replace>},
                                                        {"string", as_text},
                                                        {"safe", same},
                                                        {"join", join},
                                                        {"length", length_of},
                                                        {"count", length_of},
                                                        {"default", defaulted},
                                                        {"d", defaulted},
                                                        {"tojson", tojson},
                                                        {"items", items},
                                                        {"dictsort", sorted_items},
                                                        {"list", as_list},
                                                        {"first", first},
                                                        {"last", last},
                                                        {"min", extreme<false>},
                                                        {"max", extreme<true>},
                                                        {"reverse", reversed},
                                                        {"int", as_integer},
                                                        {"select", selected<true, false>},
                                                        {"reject", selected<false, false>},
                                                        {"selectattr", selected<true, true>},
                                                        {"rejectattr", selected<false, true>},
                                                        {"map", mapped}};
  return known;
}

const std::map<std::string_view, Method>& methods_of(const Value& object) {
  static const std::map<std::string_view, Method> none, of_list{{"append", append}},
      of_map{{"items", items}, {"keys", keys}, {"values", values}, {"get", get}},
      of_text{{"strip", stripped},
              {"lstrip", left_stripped},
              {"rstrip", right_stripped},
              {"split", split},
              {"startswith", starts_with},
              {"endswith", ends_with},
              {"upper", upper},
              {"lower", lower},
              {"capitalize", capitalize},
              {"title", title},
              {"replace", replace},
              {"find", find},
              {"join", [](const Value&by, const Arguments&arguments) {
                 if (arguments.list.size() != 1) throw core::ConfigError("'join' takes a list");
                 return join(arguments.list[0], Arguments{{by}, {}});
               }}};
  return object.text() != nullptr   ? of_text
         : object.list() != nullptr ? of_list
         : object.map() != nullptr  ? of_map
                                    : none;
}

template <class Known>
[[noreturn]] void refuse(std::string_view what, std::string_view name, const Known& known) {
  std::string names;
  for (const auto& [each, function] : known) names += fmt::format("{}{}", names.empty() ? "" : ", ", each);
  throw core::ConfigError(fmt::format("the {} '{}' is not known; known are {}", what, name, names));
}

using Test = bool (*)(const Value&, const Arguments&);
const Value& against(const Arguments& arguments) {
  if (arguments.list.size() != 1) throw core::ConfigError("a test that compares takes one value");
  return arguments.list[0];
}

const std::map<std::string_view, Test>& tests() {
  static const std::map<std::string_view, Test> known{
      {"defined", [](const Value& v, const Arguments&) { return !v.undefined(); }},
      {"undefined", [](const Value& v, const Arguments&) { return v.undefined(); }},
      {"none", [](const Value& v, const Arguments&) { return v.none(); }},
      {"string", [](const Value& v, const Arguments&) { return v.text() != nullptr; }},
      {"mapping", [](const Value& v, const Arguments&) { return v.map() != nullptr; }},
      {"boolean", [](const Value& v, const Arguments&) { return v.boolean() != nullptr; }},
      {"integer", [](const Value& v, const Arguments&) { return v.integer() != nullptr; }},
      {"float", [](const Value& v, const Arguments&) { return v.real() != nullptr; }},
      {"number", [](const Value& v, const Arguments&) { return v.number(); }},
      {"true", [](const Value& v, const Arguments&) { return v.boolean() != nullptr && *v.boolean(); }},
      {"false", [](const Value& v, const Arguments&) { return v.boolean() != nullptr && !*v.boolean(); }},
      {"callable", [](const Value& v, const Arguments&) { return v.function() != nullptr; }},
      {"iterable",
       [](const Value& v, const Arguments&) {
         return v.text() != nullptr || v.list() != nullptr || v.map() != nullptr || v.undefined();
       }},
      {"sequence",
       [](const Value& v, const Arguments&) {
         return v.text() != nullptr || v.list() != nullptr || v.map() != nullptr || v.undefined();
       }},
      {"odd", [](const Value& v, const Arguments&) { return integer_of(v) % 2 != 0; }},
      {"even", [](const Value& v, const Arguments&) { return integer_of(v) % 2 == 0; }},
      {"eq", [](const Value& v, const Arguments& a) { return v == against(a); }},
      {"equalto", [](const Value& v, const Arguments& a) { return v == against(a); }},
      {"==", [](const Value& v, const Arguments& a) { return v == against(a); }},
      {"ne", [](const Value& v, const Arguments& a) { return !(v == against(a)); }},
      {"in", [](const Value& v, const Arguments& a) { return contains(against(a), v); }}};
  return known;
}

}  // namespace

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments) {
  const auto found = filters().find(name);
  if (found == filters().end()) refuse("filter", name, filters());
  return found->second(value, arguments);
}

bool apply_test(std::string_view name, const Value& value, const Arguments& arguments) {
  const auto found = tests().find(name);
  if (found == tests().end()) refuse("test", name, tests());
  return found->second(value, arguments);
}

bool has_method(const Value& object, std::string_view name) {
  return methods_of(object).contains(name);
}

Value call_method(const Value& object, std::string_view name, const Arguments& arguments) {
  const auto& known = methods_of(object);
  const auto found = known.find(name);
  if (found == known.end()) refuse(fmt::format("method of {}", object.kind()), name, known);
  return found->second(object, arguments);
}

}  // namespace zrt::runtime::data::chat
