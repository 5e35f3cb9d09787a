#include "runtime/train/checkpoint/strict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/json_problem.h"
#include "core/printable.h"

namespace zrt::runtime::checkpoint {
namespace {

// Puts together what the lexer finds. nlohmann's own builder looks every key of an ordered object up among the others.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  StrictBuilder(const std::string& name, int max_depth) : name_(name), max_depth_(static_cast<size_t>(max_depth)) {}
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool key(string_t& name) override {
    open_.back()->get_ref<Json::object_t&>().emplace_back(std::move(name), nullptr);
    return true;
  }
  bool end_object() override {
    refuse_twice(open_.back()->get_ref<Json::object_t&>());
    return end_array();
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    refuse(fmt::format("is not valid JSON: {}", core::json_problem(error.what())));
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw core::DataError(core::printable(fmt::format("{}: {}", name_, what)));
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (open_.size() == max_depth_) refuse(fmt::format("is nested more than {} levels deep", max_depth_));
    open_.push_back(place(std::move(value)));
    return true;
  }

  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->get_ref<Json::array_t&>().emplace_back(std::move(value));
    return &(open_.back()->get_ref<Json::object_t&>().back().second = std::move(value));
  }

  void refuse_twice(const Json::object_t& object) const {
    std::vector<const std::string*> keys;
    keys.reserve(object.size());
    for (const auto& [key, value] : object) keys.push_back(&key);
    std::sort(keys.begin(), keys.end(), [](const std::string* a, const std::string* b) { return *a < *b; });
    const auto twice = std::adjacent_find(keys.begin(), keys.end(),
                                          [](const std::string* a, const std::string* b) { return *a == *b; });
    if (twice != keys.end()) refuse(fmt::format("the key '{}' occurs twice", **twice));
  }

  const std::string& name_;
  size_t max_depth_;
  Json root_;
  std::vector<Json*> open_;  // objects and arrays; only the last one grows, so that the others stay where they are
};

}  // namespace

Json parse_strict_json(std::string_view text, const std::string& name, int max_depth) {
  StrictBuilder builder(name, max_depth);
  Json::sax_parse(text, &builder);
  return builder.take();
}

void append(Json& object, std::string key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(std::move(key), std::move(value));
}

}  // namespace zrt::runtime::checkpoint
