// A value of a chat template: what Jinja has of Python's types, with text that remembers for each byte whether an
// assistant's message said it or the template.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace zrt::runtime::data::chat {

// UTF-8; `marks` has a byte for each of `bytes`: 0, or the mark of who said it.
struct Text {
  std::string bytes, marks;
  Text() = default;
  Text(std::string_view said, char mark = 0) : bytes(said), marks(said.size(), mark) {}
  Text& operator+=(const Text& more);
  Text part(size_t begin, size_t end) const;  // bytes
};

class Value;
using List = std::vector<Value>;
using Map = std::vector<std::pair<std::string, Value>>;  // in the order of insertion
struct Arguments {
  List list;
  Map named;
};
using Function = std::function<Value(const Arguments&)>;
struct Undefined {
  std::string name;  // for messages
};
struct None {};

class Value {
 public:
  Value() : Value(Undefined{}) {}
  Value(Undefined value) : value_(std::move(value)) {}
  Value(None) : value_(None{}) {}
  Value(bool value) : value_(value) {}
  Value(int64_t value) : value_(value) {}
  Value(double value) : value_(value) {}
  Value(Text value) : value_(std::move(value)) {}
  Value(List value) : value_(std::make_shared<List>(std::move(value))) {}
  Value(Map value) : value_(std::make_shared<Map>(std::move(value))) {}
  Value(Function value) : value_(std::make_shared<Function>(std::move(value))) {}

  bool undefined() const { return std::holds_alternative<Undefined>(value_); }
  bool none() const { return std::holds_alternative<None>(value_); }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const double* real() const { return std::get_if<double>(&value_); }
  const Text* text() const { return std::get_if<Text>(&value_); }
  // Copies of a value share these, as Python's do.
  List* list() const { return shared<List>(); }
  Map* map() const { return shared<Map>(); }
  const Function* function() const { return shared<Function>(); }
  const std::string& name() const { return std::get<Undefined>(value_).name; }

  bool number() const { return boolean() != nullptr || integer() != nullptr || real() != nullptr; }
  double as_number() const;                       // of a number
  bool truth() const;                             // Python's
  std::string_view kind() const;                  // "a list", for messages
  const Value* find(std::string_view key) const;  // of a map; null where it has none

 private:
  template <class T>
  T* shared() const {
    const auto* held = std::get_if<std::shared_ptr<T>>(&value_);
    return held != nullptr ? held->get() : nullptr;
  }
  std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<List>, std::shared_ptr<Map>,
               std::shared_ptr<Function>>
      value_;
};

bool operator==(const Value& a, const Value& b);  // Python's: 1 == 1.0 == True

// All texts in it get the mark.
Value from_json(const nlohmann::ordered_json& json, char mark = 0);
// Python's json.dumps without escapes of Unicode; indent below 0: on one line. Keeps marks. Throws ConfigError for what
// JSON has not.
Text to_json(const Value& value, int indent = -1);
// Python's str(). Throws ConfigError for lists, maps and functions.
Text to_text(const Value& value);

// A copy that shares no list or mapping, so that nothing can come to hold itself. Throws ConfigError where lists and
// mappings stand too deep in each other.
Value copied(const Value& value);
void check_depth(const Value& value);  // throws the same

// Text as Python sees it.
int64_t length(const Text& text);                     // code points
std::vector<size_t> code_points(const Text& text);    // where each begins, and the end
Text strip(const Text& text, bool left, bool right);  // white space of Unicode
Text strip(const Text& text, bool left, bool right, std::string_view characters);

}  // namespace zrt::runtime::data::chat
