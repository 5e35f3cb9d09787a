#include "runtime/data/dataset_tokenizer.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "runtime/data/dataset_meta.h"
#include "runtime/data/sentencepiece_tokenizer.h"
#include "runtime/data/tokenizer_json/tokenizer_json.h"

namespace zrt::runtime::data {

std::optional<DatasetTokenizer> common_tokenizer(const std::vector<std::string>& prefixes, int64_t model_vocabulary) {
  std::optional<DatasetTokenizer> common;
  std::string common_text, unnamed;
  for (const std::string& prefix : prefixes) {
    const auto meta = read_meta(prefix);
    if (!meta) {
      if (unnamed.empty()) unnamed = prefix;
      continue;
    }
    if (!common) {
      const auto folder = std::filesystem::path(prefix).parent_path();
      common = {meta->tokenizer,
                meta->tokenizer_xxh3,
                meta->vocabulary,
                prefix,
                meta->tokenizer_eod,
                meta->templated,
                meta->tokenizer_file.empty() ? std::string() : (folder / meta->tokenizer_file).string(),
                ""};
      common_text = tokenizer_text(*meta);
    }
    if (tokenizer_text(*meta) != common_text)
      throw core::ConfigError(
          fmt::format("dataset {} was made by tokenizer {} but {} by {}: their token ids mean different text. Build "
                      "both with the same --tokenizer.",
                      common->prefix, common_text, prefix, tokenizer_text(*meta)));
    if (meta->tokenizer_eod != common->eod)
      throw core::ConfigError(fmt::format(
          "documents of dataset {} end with '{}' but those of {} with '{}'. Build both with the same --eod.",
          common->prefix, common->eod, prefix, meta->tokenizer_eod));
    if (meta->templated != common->templated)
      throw core::ConfigError(
          fmt::format("documents of dataset {} stand in the tokenizer's template and those of {} do not. Build both "
                      "with --template, or both without.",
                      meta->templated ? prefix : common->prefix, meta->templated ? common->prefix : prefix));
    if (meta->vocabulary > model_vocabulary)
      throw core::ConfigError(fmt::format(
          "model.vocab is {} but dataset {} was made by tokenizer '{}' with {} tokens; set model.vocab to at least {}",
          model_vocabulary, prefix, meta->tokenizer, meta->vocabulary, meta->vocabulary));
  }
  if (common) common->unnamed = unnamed;
  return common;
}

std::string tokenizer_text(const DatasetTokenizer& tokenizer) {
  return tokenizer_text(tokenizer.name, tokenizer.xxh3, tokenizer.vocabulary);
}

std::string tokenizer_text(const Tokenizer& tokenizer) {
  return tokenizer_text(tokenizer.name(), tokenizer.xxh3(), tokenizer.vocab_size());
}

std::unique_ptr<Tokenizer> open_tokenizer(const DatasetTokenizer& tokenizer) {
  if (tokenizer.file.empty()) return make_tokenizer(tokenizer.name);
  std::unique_ptr<Tokenizer> opened;
  if (tokenizer.name == tokenizer_json_name)
    opened = tokenizer_json::JsonTokenizer::open(tokenizer.file, tokenizer.eod);
  else
    opened = SentencePieceTokenizer::open(tokenizer.file);
  if (opened->xxh3() != tokenizer.xxh3)
    throw core::DataError(
        fmt::format("{}: its XXH3 is {} but dataset {} was made with the tokenizer {}. Copy that model back, or build "
                    "the dataset again.",
                    tokenizer.file, opened->xxh3(), tokenizer.prefix, tokenizer.xxh3));
  return opened;
}

}  // namespace zrt::runtime::data
