// The tokenizer that made datasets, as their descriptions name it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/tokenizer.h"

namespace zrt::runtime::data {

struct DatasetTokenizer {
  std::string name, xxh3;
  int64_t vocabulary = 0;
  std::string prefix;      // of the first dataset that names it
  std::string eod;         // the token that ends documents, where a tokenizer.json has several
  bool templated = false;  // documents stand in its template
  std::string file;        // path of its model beside that dataset; "" when it has none
  // The first dataset without a description, whose ids may mean other text; "" when there is none. Training needs no
  // text. Whoever does, asks here.
  std::string unnamed;
};

// The tokenizer of all `prefixes`; nothing when none has a description. Throws ConfigError when two were made by
// different tokenizers, and when the model's vocabulary is smaller than the tokenizer's; DataError for a bad
// description.
std::optional<DatasetTokenizer> common_tokenizer(const std::vector<std::string>& prefixes, int64_t model_vocabulary);

// Returns the text by which the descriptions of datasets and checkpoints name it.
std::string tokenizer_text(const DatasetTokenizer& tokenizer);
std::string tokenizer_text(const Tokenizer& tokenizer);

// Throws DataError when its model is missing or is not the one the dataset was made with.
std::unique_ptr<Tokenizer> open_tokenizer(const DatasetTokenizer& tokenizer);

}  // namespace zrt::runtime::data
