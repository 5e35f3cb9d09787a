// One dataset of a build while it is written, with the statistics of its text.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/data/encoder.h"
#include "runtime/data/indexed_dataset_writer.h"
#include "runtime/data/text_coder.h"

namespace zrt::runtime::data {

struct BuiltPart {
  std::string prefix;
  DatasetMeta meta;  // documents, tokens, bytes, entropy; also written as PREFIX.meta.json
};

// Entropy of text by its byte counts, in bits per byte.
double unigram_entropy(const ByteCounts& counts);

class PartWriter {
 public:
  // `conversations`: writes which tokens count, and nothing around documents, which have all that the model reads.
  PartWriter(std::string prefix, TextCoder coder, bool conversations = false);

  // Documents that the tokenizer encoded; each gets what stands around it (TextCoder).
  void add(const Encoded& batch);
  int64_t documents() const { return writer_.documents(); }
  int64_t tokens() const { return writer_.tokens(); }

  // Completes the files that publish() makes visible (indexed_dataset_writer.h).
  BuiltPart seal(const std::string& language, const std::string& tokenizer_file);
  void publish() { writer_.publish(); }

 private:
  std::string prefix_;
  TextCoder coder_;
  bool conversations_;
  IndexedDatasetWriter writer_;
  ByteCounts counts_{};
  int64_t bytes_ = 0;
  bool open_ = false;  // a document goes on in the next batch
};

}  // namespace zrt::runtime::data
