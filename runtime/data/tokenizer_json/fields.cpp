#include "runtime/data/tokenizer_json/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"

namespace zrt::runtime::data::tokenizer_json {

namespace {

constexpr int deepest = 32;           // sequences inside sequences
constexpr size_t longest_value = 80;  // of what messages show

// Deep values are named by their type: what prints a value works with the stack.
bool is_shallow(const Json& value, int depth) {
  return !value.is_structured() || (depth > 0 && std::all_of(value.begin(), value.end(), [&](const Json& one) {
                                      return is_shallow(one, depth - 1);
                                    }));
}

}  // namespace

std::string shown(const Json& value) {
  if (!is_shallow(value, 4)) return value.is_object() ? "an object" : "a list";
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > longest_value) text = text.substr(0, longest_value) + "…";
  return text;
}

Fields::Fields(const Json& object, std::string where, std::string source, int depth)
    : object_(&object), where_(std::move(where)), source_(std::move(source)), depth_(depth) {
  if (!object.is_object())
    throw core::DataError(fmt::format("{}: {} is {}; it must be a JSON object.", source_,
                                      where_.empty() ? "the file" : where_, shown(object)));
  if (depth > deepest)
    throw core::DataError(fmt::format("{}: {} lies more than {} sequences deep.", source_, where_, deepest));
}

std::string Fields::place(const std::string& key) const {
  return where_.empty() ? key : where_ + "." + key;
}

void Fields::refuse(const char* key, const std::string& legal) const {
  const auto found = object_->find(key);
  throw core::DataError(core::printable(fmt::format("{}: {} is {}; {}.", source_, place(key),
                                                    found == object_->end() ? "missing" : shown(*found), legal)));
}

const Json* Fields::find(const char* key) {
  asked_.insert(key);
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::need(const char* key) {
  const Json* found = find(key);
  if (found == nullptr) refuse(key, "it must be there");
  return *found;
}

std::string Fields::text(const char* key, std::optional<std::string> otherwise) {
  const Json* found = find(key);
  if (found == nullptr && otherwise) return *otherwise;
  if (found == nullptr || !found->is_string()) refuse(key, "it must be a string");
  return found->get<std::string>();
}

bool Fields::flag(const char* key, std::optional<bool> otherwise) {
  const Json* found = find(key);
  if (found == nullptr && otherwise) return *otherwise;
  if (found == nullptr || !found->is_boolean()) refuse(key, "it must be true or false");
  return found->get<bool>();
}

int64_t Fields::number(const char* key, int64_t least, int64_t most, std::optional<int64_t> otherwise) {
  const Json* found = find(key);
  if (found == nullptr && otherwise) return *otherwise;
  const auto legal = [&](const Json& value) {
    return value.is_number_integer() && value.get<double>() >= static_cast<double>(least) &&
           value.get<double>() <= static_cast<double>(most);
  };
  if (found == nullptr || !legal(*found)) refuse(key, fmt::format("it must be an integer from {} to {}", least, most));
  return found->get<int64_t>();
}

std::optional<Fields> Fields::child(const char* key) {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  return Fields(*found, place(key), source_, depth_ + 1);
}

std::vector<Fields> Fields::list(const char* key) {
  const Json& found = need(key);
  if (!found.is_array()) refuse(key, "it must be a list");
  std::vector<Fields> items;
  for (size_t i = 0; i < found.size(); ++i)
    items.emplace_back(found[i], fmt::format("{}[{}]", place(key), i), source_, depth_ + 1);
  return items;
}

std::string Fields::character(const char* key, std::optional<std::string> otherwise) {
  std::string found = text(key, std::move(otherwise));
  if (found.empty() || core::utf8_character(found) != found.size()) refuse(key, "it must be one character");
  return found;
}

void Fields::pass_over(std::initializer_list<const char*> keys) {
  for (const char* key : keys) asked_.insert(key);
}

void Fields::finish() const {
  for (const auto& [key, value] : object_->items()) {
    if (asked_.contains(key)) continue;
    throw core::DataError(core::printable(fmt::format("{}: {} is {}; zrt does not know this key here. It knows {}.",
                                                      source_, place(key), shown(value), fmt::join(asked_, ", "))));
  }
}

}  // namespace zrt::runtime::data::tokenizer_json
