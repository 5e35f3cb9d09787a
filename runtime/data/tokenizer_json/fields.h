// A component of tokenizer.json as it is read: every key is asked for, and one that nobody asked for is refused.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace zrt::runtime::data::tokenizer_json {

using Json = nlohmann::json;

std::string shown(const Json& value);  // in messages: cut where it is long, and only its type where it is deep

class Fields {
 public:
  // `where`: the place of `object` in the file, such as "pre_tokenizer.pretokenizers[1]"; "" for the whole. All members
  // throw DataError naming file and place.
  Fields(const Json& object, std::string where, std::string source, int depth = 0);

  // A null counts as missing. Without `otherwise` the key must be there.
  std::string text(const char* key, std::optional<std::string> otherwise = {});
  bool flag(const char* key, std::optional<bool> otherwise = {});
  int64_t number(const char* key, int64_t least, int64_t most, std::optional<int64_t> otherwise = {});
  const Json* find(const char* key);  // nullptr when missing
  const Json& need(const char* key);
  std::optional<Fields> child(const char* key);
  std::vector<Fields> list(const char* key);
  // One character, as its UTF-8.
  std::string character(const char* key, std::optional<std::string> otherwise = {});

  // Keys that are about what zrt does not compute, such as offsets.
  void pass_over(std::initializer_list<const char*> keys);
  // Throws when a key is left that nobody asked for.
  void finish() const;

  std::string place(const std::string& key) const;
  const std::string& source() const { return source_; }
  // "FILE: PLACE.KEY is VALUE; `legal`"
  [[noreturn]] void refuse(const char* key, const std::string& legal) const;

 private:
  const Json* object_;
  std::string where_, source_;
  int depth_;
  std::set<std::string> asked_;
};

}  // namespace zrt::runtime::data::tokenizer_json
