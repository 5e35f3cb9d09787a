// PREFIX.meta.json: what a dataset was made from. One that was made elsewhere has none until describe_dataset() writes
// it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace zrt::runtime::data {

struct DatasetMeta {
  std::string tokenizer;   // Tokenizer::name()
  int64_t vocabulary = 0;  // Tokenizer::vocab_size()
  int64_t documents = 0;
  int64_t tokens = 0;                          // end-of-document ids included
  int64_t bytes = 0;                           // of text
  double unigram_entropy = 0;                  // of the text's bytes, bits per byte
  std::string tokenizer_file = {};             // its model, a file beside this one; "" when it has none
  std::string tokenizer_xxh3 = {};             // Tokenizer::xxh3()
  std::string tokenizer_eod = {};              // Tokenizer::eod_text()
  bool templated = false;                      // documents stand in the tokenizer's template
  std::string language = {};                   // "" when not given
  std::optional<int64_t> counted_tokens = {};  // of a dataset of conversations: those that enter the loss
};

std::string to_json(const DatasetMeta& meta);

// A tokenizer in words: name, hash where it has one, and number of tokens. Equal where ids mean the same text.
std::string tokenizer_text(const std::string& name, const std::string& xxh3, int64_t vocabulary);
std::string tokenizer_text(const DatasetMeta& meta);

// Nothing when the file does not exist. Keys that may be "" may be missing. Throws DataError naming file and key when
// it is not what to_json() writes.
std::optional<DatasetMeta> read_meta(const std::string& prefix);

// Throws DataError naming PREFIX.meta.json when it describes another dataset than one of `documents` and `tokens`.
void check_meta(const DatasetMeta& meta, const std::string& prefix, int64_t documents, int64_t tokens);

}  // namespace zrt::runtime::data
