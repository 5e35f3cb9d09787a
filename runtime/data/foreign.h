// Datasets that others made: tells what tokenizer made a dataset, and makes datasets of files of mere ids.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/part_writer.h"

namespace zrt::runtime::data {

// Tokens read so far, of all.
using OnTokens = std::function<void(int64_t tokens, int64_t all)>;

struct DescribeOptions {
  std::string prefix;     // as data.train names it (open_documents)
  std::string tokenizer;  // make_tokenizer(): the one that made the ids
  std::string eod = {};   // the token of that tokenizer that ends documents
  std::string language;   // for the description
  bool force = false;     // replace a description and a tokenizer's file that are there
  OnTokens progress;
};

// Decodes a dataset, and writes PREFIX.meta.json and a copy of the tokenizer's file beside it, so that evaluations know
// bits per byte, and samples their text. The dataset stays as it is. Throws DataError naming file and place of an id
// that the tokenizer does not have, and where the dataset is bad; ConfigError where something would be replaced.
BuiltPart describe_dataset(const DescribeOptions& options);

struct ImportOptions {
  std::vector<std::string> inputs;  // files of ids and nothing else, little-endian, as numpy's tofile() writes them
  std::string out;                  // PREFIX
  int id_bytes = 2;                 // of an id: 2 or 4, without sign
  std::string tokenizer;            // that made the ids, "" where it is not at hand; else the next two are of no use
  std::optional<int64_t> vocabulary;
  std::optional<int64_t> eod;  // the id that ends a document; nothing: a file is a document
  std::string eod_token = {};  // make_tokenizer(): the token that ends one, where the tokenizer is named
  std::string language;
  bool force = false;
  OnTokens progress;
};

// Makes a dataset of them, in the order of the inputs, with a description where the tokenizer is named. A document ends
// behind each end-of-document id, and with its file. Throws DataError naming the file that is missing, empty, cut
// within an id, of another format, or has an id beyond the vocabulary, with the place; ConfigError for a bad option. A
// refused import leaves nothing.
BuiltPart import_ids(const ImportOptions& options);

}  // namespace zrt::runtime::data
