#include "runtime/data/dataset_meta.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "runtime/data/indexed_format.h"
#include "runtime/data/llmc_dataset.h"

namespace zrt::runtime::data {

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

std::string text_of(const Json& object, const char* key, const std::string& path) {
  const Json& value = value_of(object, key, path);
  if (!value.is_string())
    throw core::DataError(fmt::format("{}: key '{}' is {}; it must be a string.", path, key, value.dump()));
  return value.get<std::string>();
}

std::string optional_text(const Json& object, const char* key, const std::string& path) {
  return object.contains(key) ? text_of(object, key, path) : std::string();
}

bool optional_flag(const Json& object, const char* key, const std::string& path) {
  if (!object.contains(key)) return false;
  const Json& value = value_of(object, key, path);
  if (!value.is_boolean())
    throw core::DataError(fmt::format("{}: key '{}' is {}; it must be true or false.", path, key, value.dump()));
  return value.get<bool>();
}

// The file is read beside the description and nowhere else.
std::string file_name(const Json& object, const char* key, const std::string& path) {
  const std::string name = optional_text(object, key, path);
  if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos || name == "." || name == "..")
    throw core::DataError(fmt::format("{}: key '{}' is {}; it must be the name of a file in the same folder.", path,
                                      key, Json(name).dump()));
  return name;
}

}  // namespace

std::string to_json(const DatasetMeta& meta) {
  Json object = {{"tokenizer", meta.tokenizer}, {"vocabulary", meta.vocabulary}};
  if (!meta.tokenizer_file.empty()) object["tokenizer_file"] = meta.tokenizer_file;
  if (!meta.tokenizer_xxh3.empty()) object["tokenizer_xxh3"] = meta.tokenizer_xxh3;
  if (!meta.tokenizer_eod.empty()) object["tokenizer_eod"] = meta.tokenizer_eod;
  if (meta.templated) object["template"] = true;
  if (!meta.language.empty()) object["language"] = meta.language;
  object["documents"] = meta.documents;
  object["tokens"] = meta.tokens;
  if (meta.counted_tokens) object["counted_tokens"] = *meta.counted_tokens;
  object["bytes"] = meta.bytes;
  object["unigram_entropy"] = meta.unigram_entropy;
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string tokenizer_text(const std::string& name, const std::string& xxh3, int64_t vocabulary) {
  return fmt::format("'{}'{}{} of {} tokens", name, xxh3.empty() ? "" : " ", xxh3, vocabulary);
}

std::string tokenizer_text(const DatasetMeta& meta) {
  return tokenizer_text(meta.tokenizer, meta.tokenizer_xxh3, meta.vocabulary);
}

std::optional<DatasetMeta> read_meta(const std::string& prefix) {
  const std::string path = meta_path(prefix);
  std::error_code failed;
  if (!std::filesystem::exists(path, failed)) return std::nullopt;
  const Json object = Json::parse(core::read_text(path, largest_file), nullptr, false);
  if (!object.is_object()) throw core::DataError(fmt::format("{}: the file is not a JSON object.", path));

  DatasetMeta meta;
  meta.tokenizer = text_of(object, "tokenizer", path);
  meta.tokenizer_file = file_name(object, "tokenizer_file", path);
  meta.tokenizer_xxh3 = optional_text(object, "tokenizer_xxh3", path);
  meta.tokenizer_eod = optional_text(object, "tokenizer_eod", path);
  meta.templated = optional_flag(object, "template", path);
  meta.language = optional_text(object, "language", path);
  meta.vocabulary = count_of(object, "vocabulary", path);
  meta.documents = count_of(object, "documents", path);
  meta.tokens = count_of(object, "tokens", path);
  if (object.contains("counted_tokens")) meta.counted_tokens = count_of(object, "counted_tokens", path);
  meta.bytes = count_of(object, "bytes", path);
  const Json& entropy = value_of(object, "unigram_entropy", path);
  if (!entropy.is_number() || !(entropy.get<double>() >= 0 && entropy.get<double>() <= 8))
    throw core::DataError(
        fmt::format("{}: key 'unigram_entropy' is {}; it must be from 0 to 8 bits per byte.", path, entropy.dump()));
  meta.unigram_entropy = entropy.get<double>();
  return meta;
}

void check_meta(const DatasetMeta& meta, const std::string& prefix, int64_t documents, int64_t tokens) {
  const auto check = [&](const char* key, int64_t said, int64_t found) {
    if (said != found)
      throw core::DataError(fmt::format(
          "{}: key '{}' is {} but {} has {}: it describes another dataset. Build the dataset again, have it "
          "described by `zrt data describe`, or remove the file to do without bits per byte.",
          meta_path(prefix), key, said, is_llmc_name(prefix) ? prefix : idx_path(prefix), found));
  };
  check("documents", meta.documents, documents);
  check("tokens", meta.tokens, tokens);
  // A byte tokenizer's text is what is not an end of document, which documents of other writers may lack.
  if (meta.tokenizer == "bytes" && (meta.bytes < tokens - documents || meta.bytes > tokens))
    check("bytes", meta.bytes, tokens - documents);
}

}  // namespace zrt::runtime::data
