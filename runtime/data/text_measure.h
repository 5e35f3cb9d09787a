// Measures the text behind token ids: its bytes and their entropy, which a dataset made elsewhere does not say.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "runtime/data/encoder.h"
#include "runtime/data/part_writer.h"
#include "runtime/data/tokenizer.h"

namespace zrt::runtime::data {

class TextMeasure {
 public:
  explicit TextMeasure(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Documents, each of which ends with its end-of-document id or with the last of `ids`. Ids must be the tokenizer's.
  void add(std::span<const int32_t> ids);

  // The description of a dataset of that text; `tokenizer_file` is the path of the tokenizer's copy beside it.
  DatasetMeta meta(const std::string& language, const std::string& tokenizer_file, int64_t documents,
                   int64_t tokens) const;

 private:
  const Tokenizer& tokenizer_;
  ByteCounts counts_{};
};

// The place of the first id that the vocabulary does not hold; ids.size() where all are legal.
size_t first_illegal(std::span<const int32_t> ids, int64_t vocabulary);

}  // namespace zrt::runtime::data
