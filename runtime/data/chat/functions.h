// The filters, tests, methods and functions of Jinja and Python that chat templates use.
#pragma once
#include <string_view>

#include "runtime/data/chat/value.h"

namespace zrt::runtime::data::chat {

// All throw core::ConfigError that says what is not known, or does not go together.
Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments);
bool apply_test(std::string_view name, const Value& value, const Arguments& arguments);
Value call_method(const Value& object, std::string_view name, const Arguments& arguments);
bool has_method(const Value& object, std::string_view name);

}  // namespace zrt::runtime::data::chat
