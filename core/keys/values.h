// The values of all keys in force, each with where it came from, and typed reading with range checks. What is wrong
// with a value is gathered, naming the key, the value, its place, what is legal and what to try, and reading goes on.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/keys/key.h"
#include "core/keys/problems.h"

namespace zrt::core::keys {

enum class From : uint8_t { file, command_line, fallback, inferred, folder };
std::string_view from_name(From from);  // "file", "command line", "default", "inferred", "folder": that of model.from

struct Value {
  std::string path;
  nlohmann::json value;
  From from = From::fallback;
  std::string place;  // "ds.json:12", "--set optimizer.params.lr", "--device", "the default", "inferred"
  int line = 0;       // of the file; 0: none
  const Key* key = nullptr;
};

// A JSON value for messages, on one line and cut to a readable length.
std::string printed(const nlohmann::json& value);

// The value as `types` wants it: 5e8 becomes an integer, and in strict sections "500000000", true as 1, "yes".
// Empty when it has another type.
std::optional<nlohmann::json> coerce(Types types, bool strict, const nlohmann::json& value);
std::string types_text(Types types);     // "an integer or null"
std::string range_text(const Key& key);  // "1 to 4096", "at least 0 and below 1"; "" where every number is legal
std::string legal_text(const Key& key);  // the types with range and choices: "an integer from 1 to 4096 or null"
std::vector<std::string> choices_of(const Key& key);

std::string shown(const Value& value);                                 // "KEY = VALUE (PLACE)"
std::string without_effect(const Value& value, std::string_view why);  // "KEY = VALUE (PLACE) has no effect: WHY."

// "KEY = VALUE (PLACE) WHAT", thrown as a Refusal.
[[noreturn]] void refuse(const Value& value, const std::string& what);

class Values {
 public:
  void add(Value value);
  const Value& at(std::string_view path) const;  // ProgramError when the table has no such key
  const Value* find(std::string_view path) const;
  const std::vector<Value>& all() const { return values_; }

  bool is_null(std::string_view path) const { return at(path).value.is_null(); }
  bool given(std::string_view path) const;  // not a default, and not inferred
  bool flag(std::string_view path) const { return at(path).value.get<bool>(); }
  // A value out of the key's range is a problem; the nearest legal one is returned.
  int64_t integer(std::string_view path) const;
  std::optional<int64_t> optional_integer(std::string_view path) const;  // of null none
  double real(std::string_view path) const;
  std::vector<double> reals(std::string_view path, size_t count) const;  // a list of so many; throws Refusal
  std::string text(std::string_view path) const { return at(path).value.get<std::string>(); }
  std::string choice(std::string_view path) const;  // as the key's choices spell it; throws Refusal for another text

  // Replaces a value that was left open. A value already inferred, as in config.resolved.json, may be replaced too.
  // `meaning` is what the value stands for, where it does not say so itself.
  void infer(std::string_view path, nlohmann::json value, const std::string& meaning = "");

  // Replaces a value by one that is read from elsewhere, `place` in messages.
  void take(std::string_view path, nlohmann::json value, From from, const std::string& place);

  // "auto" counts as left out. warn_of_autos() tells, when all is inferred, what is used instead.
  void leave_out(const Value& value) { autos_.push_back(value); }
  const Value* left_out(std::string_view path) const;
  void warn_of_autos();

  // Runs one part of the work; what it throws as ConfigError is gathered, and false returned. A part that reads a value
  // already known to be wrong adds nothing about relations: its verdict would rest on a value nobody gave.
  template <class Part>
  bool check(Part&& part) const;
  [[noreturn]] void missing(std::string_view path, const std::string& what) const;  // "PATH is missing; WHAT"
  void mark_wrong(std::string_view path) const { wrong_.emplace(path); }
  bool wrong(std::string_view path) const { return wrong_.contains(path); }

  std::vector<std::string> warnings, notes;  // notes: what is as it should be, and worth a line
  mutable Problems problems;                 // gathered by readers, which change nothing else

 private:
  void gather(const ConfigError& error) const;

  std::vector<Value> values_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<Value> autos_;
  std::map<std::string, std::string, std::less<>> meanings_;
  mutable std::set<std::string, std::less<>> wrong_;
  mutable bool doubtful_ = false;  // the part at work has read a wrong value
};

template <class Part>
bool Values::check(Part&& part) const {
  const bool outer = std::exchange(doubtful_, false);
  bool good = true;
  try {
    part();
  } catch (const ConfigError& error) {
    good = false;
    if (!doubtful_) gather(error);
  }
  good = good && !doubtful_;
  doubtful_ = outer;
  return good;
}

}  // namespace zrt::core::keys
