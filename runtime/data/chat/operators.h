// Operators, brackets and loops of a template make new values of others by these functions.
#pragma once
#include <string_view>

#include "runtime/data/chat/value.h"

namespace zrt::runtime::data::chat {

// All throw core::ConfigError for values that do not go together.
// Attribute or element: undefined where there is none. Negative indices count from the end.
Value element_of(const Value& object, const Value& key);
// Python's object[begin:end:step], of lists and texts; undefined bounds are left out.
Value slice_of(const Value& object, const Value& begin, const Value& end, const Value& step);
// A loop goes through these: elements of a list, keys of a mapping, characters of a text.
List elements_of(const Value& value);
// A number that is cut to an integer.
int64_t whole_number(double value);
bool contains(const Value& container, const Value& element);
// `sign` is one of Jinja's operators of two values, but for `and` and `or`.
Value combine(std::string_view sign, const Value& left, const Value& right);

}  // namespace zrt::runtime::data::chat
