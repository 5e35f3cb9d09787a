#include "models/data/dataset_meta.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/data/indexed_format.h"
#include "models/data/mapped_file.h"

namespace zrt::models::data {

namespace {

using Json = nlohmann::ordered_json;
constexpr size_t largest_file = size_t{1} << 20;

const Json& value_of(const Json& object, const char* key, const std::string& path) {
  const auto found = object.find(key);
  if (found == object.end()) throw core::DataError(fmt::format("{}: key '{}' is missing.", path, key));
  return *found;
}

int64_t count_of(const Json& object, const char* key, const std::string& path) {
  const Json& value = value_of(object, key, path);
  if (!value.is_number_integer() || value.get<double>() < 0 || value.get<double>() > 0x1p62)
    throw core::DataError(
        fmt::format("{}: key '{}' is {}; it must be an integer of 0 or more.", path, key, value.dump()));
  return value.get<int64_t>();
}

}  // namespace

std::string to_json(const DatasetMeta& meta) {
  const Json object = {{"tokenizer", meta.tokenizer}, {"vocabulary", meta.vocabulary},
                       {"documents", meta.documents}, {"tokens", meta.tokens},
                       {"bytes", meta.bytes},         {"unigram_entropy", meta.unigram_entropy}};
  return object.dump(2) + "\n";
}

std::optional<DatasetMeta> read_meta(const std::string& prefix) {
  const std::string path = meta_path(prefix);
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return std::nullopt;
  const MappedFile file(path);
  if (file.size() > largest_file)
    throw core::DataError(
        fmt::format("{}: the file has {} bytes; a description has at most {}.", path, file.size(), largest_file));
  const auto* text = reinterpret_cast<const char*>(file.data());
  const Json object = Json::parse(text, text + file.size(), nullptr, false);
  if (!object.is_object()) throw core::DataError(fmt::format("{}: the file is not a JSON object.", path));

  DatasetMeta meta;
  const Json& tokenizer = value_of(object, "tokenizer", path);
  if (!tokenizer.is_string())
    throw core::DataError(fmt::format("{}: key 'tokenizer' is {}; it must be a string.", path, tokenizer.dump()));
  meta.tokenizer = tokenizer.get<std::string>();
  meta.vocabulary = count_of(object, "vocabulary", path);
  meta.documents = count_of(object, "documents", path);
  meta.tokens = count_of(object, "tokens", path);
  meta.bytes = count_of(object, "bytes", path);
  const Json& entropy = value_of(object, "unigram_entropy", path);
  if (!entropy.is_number() || !(entropy.get<double>() >= 0 && entropy.get<double>() <= 8))
    throw core::DataError(
        fmt::format("{}: key 'unigram_entropy' is {}; it must be from 0 to 8 bits per byte.", path, entropy.dump()));
  meta.unigram_entropy = entropy.get<double>();
  return meta;
}

}  // namespace zrt::models::data
