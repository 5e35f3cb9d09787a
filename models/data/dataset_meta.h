// PREFIX.meta.json: what a .bin/.idx pair was made from. Plain Megatron pairs have none.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace zrt::models::data {

struct DatasetMeta {
  std::string tokenizer;   // Tokenizer::name()
  int64_t vocabulary = 0;  // Tokenizer::vocab_size()
  int64_t documents = 0;
  int64_t tokens = 0;          // end-of-document ids included
  int64_t bytes = 0;           // of text
  double unigram_entropy = 0;  // of the text's bytes, bits per byte
};

std::string to_json(const DatasetMeta& meta);

// Nothing when the file does not exist. Throws DataError naming file and key when it is not what to_json() writes.
std::optional<DatasetMeta> read_meta(const std::string& prefix);

}  // namespace zrt::models::data
