// Measures the text behind token ids: its bytes and their entropy, which a dataset made elsewhere does not say, and
// whether documents stand in the tokenizer's template.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/encoder.h"
#include "runtime/data/part_writer.h"
#include "runtime/data/tokenizer.h"

namespace zrt::runtime::data {

class TextMeasure {
 public:
  explicit TextMeasure(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Ids of a document, piece by piece; an end-of-document id ends it, too. Ids must be the tokenizer's. A long document
  // is measured in parts that begin where a word does: only one of them is held.
  void add(std::span<const int32_t> ids);
  void end_document();

  // The description of a dataset of that text; `tokenizer_file` is the path of the tokenizer's copy beside it.
  DatasetMeta meta(const std::string& language, const std::string& tokenizer_file, int64_t documents,
                   int64_t tokens) const;

 private:
  size_t part_end() const;
  void measure(size_t count);
  void count(std::span<const int32_t> ids, int64_t sign);

  const Tokenizer& tokenizer_;
  ByteCounts counts_{};
  std::vector<int32_t> held_;    // of the document, not measured yet
  std::vector<int32_t> before_;  // the last ids that were; none at the begin of a document
  size_t enough_ = part_ids;     // so many held ids are worth a look for the end of a part
  int64_t documents_ = 0, templated_ = 0;

  static constexpr size_t part_ids = size_t{1} << 16, context_ids = 16;
};

// The place of the first id that the vocabulary does not hold; ids.size() where all are legal.
size_t first_illegal(std::span<const int32_t> ids, int64_t vocabulary);

}  // namespace zrt::runtime::data
