// Filters and methods of texts, which do what Python's do, and read their arguments here.
#pragma once
#include <cstdint>
#include <string_view>

#include "runtime/data/chat/value.h"

namespace zrt::runtime::data::chat {

// By place or by name; null where it is missing.
const Value* argument(const Arguments& arguments, size_t at, std::string_view name);
// Throw core::ConfigError for what is no text, or no integer.
const Text& text_of(const Value& value);
int64_t integer_of(const Value& value);

// Upper and lower case are those of ASCII: what a template changes the case of are names of roles.
Value upper(const Value& value, const Arguments& arguments);
Value lower(const Value& value, const Arguments& arguments);
Value capitalize(const Value& value, const Arguments& arguments);
Value title(const Value& value, const Arguments& arguments);
Value stripped(const Value& value, const Arguments& arguments);
Value left_stripped(const Value& value, const Arguments& arguments);
Value right_stripped(const Value& value, const Arguments& arguments);
Value replace(const Value& value, const Arguments& arguments);
Value split(const Value& value, const Arguments& arguments);
Value starts_with(const Value& value, const Arguments& arguments);
Value ends_with(const Value& value, const Arguments& arguments);
Value find(const Value& value, const Arguments& arguments);

}  // namespace zrt::runtime::data::chat
