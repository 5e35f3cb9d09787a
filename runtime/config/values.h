// The values of all keys in force, each with where it came from, and typed reading with range checks. A reader that
// meets a bad value throws ConfigError naming the key, the value, its place, what is legal and what to try.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/key_table.h"

namespace zrt::runtime::configuration {

enum class From : uint8_t { file, command_line, fallback, inferred };
std::string_view from_name(From from);  // "file", "command line", "default", "inferred"

struct Value {
  std::string path;
  nlohmann::json value;
  From from = From::fallback;
  std::string place;  // "ds.json:12", "the command line", "the default", "inferred"
};

// A JSON value for messages, on one line and cut to a readable length.
std::string printed(const nlohmann::json& value);

// The value as `types` wants it: 5e8 becomes an integer, and in strict sections "500000000", true as 1, "yes".
// Empty when it has another type.
std::optional<nlohmann::json> coerce(Types types, bool strict, const nlohmann::json& value);
std::string types_text(Types types);  // "an integer or null"

// "KEY = VALUE (PLACE) WHAT", thrown.
[[noreturn]] void refuse(const Value& value, const std::string& what);

class Values {
 public:
  void add(Value value);
  const Value& at(std::string_view path) const;  // ProgramError when the table has no such key
  const Value* find(std::string_view path) const;
  const std::vector<Value>& all() const { return values_; }

  bool is_null(std::string_view path) const { return at(path).value.is_null(); }
  bool given(std::string_view path) const;  // not a default
  bool flag(std::string_view path) const { return at(path).value.get<bool>(); }
  int64_t integer(std::string_view path, int64_t low, int64_t high = INT64_MAX) const;
  double real(std::string_view path, double low, double high) const;  // low <= value <= high
  std::string text(std::string_view path) const { return at(path).value.get<std::string>(); }

  // Replaces a value that was left open. A value already inferred, as in config.resolved.json, may be replaced too.
  void infer(std::string_view path, nlohmann::json value);

  std::vector<std::string> warnings;

 private:
  std::vector<Value> values_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace zrt::runtime::configuration
