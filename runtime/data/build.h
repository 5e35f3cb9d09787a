// Tokenizes files of text or of JSON lines into indexed datasets: what `zrt data build` does; and trains tokenizers on
// them.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset_meta.h"
#include "runtime/data/document_stream.h"
#include "runtime/data/input_files.h"
#include "runtime/data/part_writer.h"

namespace zrt::runtime::data {

struct BuildProgress {
  bool scanning = false;              // measuring documents or training a tokenizer, before anything is written
  std::string file;                   // being read
  int64_t bytes = 0;                  // of text read in this pass
  int64_t documents = 0, tokens = 0;  // of this pass; tokens are those that were written
};

struct BuildOptions {
  std::vector<std::string> inputs;  // files of text and of JSON lines, folders (find_input_files)
  std::string out;                  // PREFIX; with validation a folder that gets train.* and validation.*
  // Lines are conversations, and the chat template of this folder makes documents of them (chat_template.h); "": text.
  std::string chat;
  std::string tokenizer = "bytes";  // make_tokenizer(), or "train": one of `vocabulary` pieces on the training text
  std::string eod;                  // of a tokenizer.json: the token that ends documents (make_tokenizer)
  bool with_template = false;       // documents stand in the tokenizer's template (text_coder.h)
  int64_t vocabulary = 8192;
  std::string language;  // for the description
  bool dedup = false;    // leave out documents that occurred before (duplicates.h)
  Documents documents = Documents::file;
  std::optional<std::string> field;  // of JSON lines, whose text is a document; nothing: "text"
  bool skip_bad = false;             // leave bad lines out, and count them
  int threads = 1;                   // that tokenize; they change nothing of the result
  double validation = 0;             // fraction of the text, 0 for none
  bool force = false;                // replace datasets and a tokenizer's model that are there
  std::function<void(const BuildProgress&)> progress;
};

struct BuildResult {
  int64_t files = 0;
  std::vector<SkippedInput> skipped;
  std::vector<DamagedText> damaged;
  std::vector<BadLines> bad_lines;  // skipped
  int64_t duplicates = 0;           // documents left out by dedup
  BuiltPart train;
  std::optional<BuiltPart> validation;
  bool split_by_document = false;  // else, with validation, the end of every document was cut off (validation_split.h)
};

// Every document ends with the tokenizer's end-of-document id, behind its template where that is asked for;
// conversations are as their chat template writes them, with counts (token_mask.h). A
// tokenizer's model is copied to PREFIX.model, or with validation to OUT/tokenizer.model (a tokenizer.json to
// PREFIX.tokenizer.json or OUT/tokenizer.json), so that the dataset can be decoded wherever it goes. With `force` old
// datasets of the same name are replaced, and only when everything new is on disk. A build that fails leaves nothing.
// Throws DataError naming the file that is unreadable, corrupt, no text, empty or too small, ConfigError for a bad
// option, one that no input has a use for, and where something would be replaced without `force`.
BuildResult build_dataset(const BuildOptions& options);

struct TokenizerOptions {
  std::vector<std::string> inputs;
  std::string out;                   // FILE.model
  std::optional<std::string> field;  // as of a build, like skip_bad
  bool skip_bad = false;
  int64_t vocabulary = 8192;
  bool force = false;  // replace the file
  std::function<void(const BuildProgress&)> progress;
};

struct TrainedTokenizer {
  int64_t vocabulary = 0;  // with end-of-document; may be less than asked for
  int64_t bytes = 0;       // of text
  std::string xxh3;
  std::vector<SkippedInput> skipped;
  std::vector<DamagedText> damaged;
  std::vector<BadLines> bad_lines;  // skipped
};

// Trains one tokenizer on all inputs (sentencepiece_training.h). Throws as build_dataset().
TrainedTokenizer train_tokenizer(const TokenizerOptions& options);

}  // namespace zrt::runtime::data
