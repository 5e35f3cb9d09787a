// Tokenizes text files into indexed datasets: what `zrt data build` does.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/data/dataset_meta.h"
#include "models/data/document_stream.h"
#include "models/data/input_files.h"

namespace zrt::models::data {

struct BuildProgress {
  bool scanning = false;  // measuring documents, before anything is written
  std::string file;       // being read
  int64_t bytes = 0;      // of text read in this pass
};

struct BuildOptions {
  std::vector<std::string> inputs;  // text files, .gz files, folders (find_input_files)
  std::string out;                  // PREFIX; with validation a folder that gets train.* and validation.*
  std::string tokenizer = "bytes";
  Documents documents = Documents::file;
  double validation = 0;  // fraction of the text, 0 for none
  std::function<void(const BuildProgress&)> progress;
};

struct BuiltPart {
  std::string prefix;
  DatasetMeta meta;  // documents, tokens, bytes, entropy; also written as PREFIX.meta.json
};

struct BuildResult {
  int64_t files = 0;
  std::vector<SkippedInput> skipped;
  BuiltPart train;
  std::optional<BuiltPart> validation;
  bool split_by_document = false;  // else, with validation, the end of every document was cut off (validation_split.h)
};

// Every document ends with the tokenizer's end-of-document id. Old datasets of the same name are replaced, and only
// when everything new is on disk. Throws DataError naming the file that is unreadable, corrupt, empty or too small,
// ConfigError for a bad option.
BuildResult build_dataset(const BuildOptions& options);

}  // namespace zrt::models::data
