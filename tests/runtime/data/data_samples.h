// Documents and samples for the tests of sample order.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "runtime/data/gpt_dataset.h"
#include "tests/runtime/data/data_files.h"

namespace zrt::test {

// Documents whose tokens all differ.
inline DocumentList distinct_documents(const std::vector<int32_t>& lengths) {
  DocumentList documents;
  int32_t next = 0;
  for (const int32_t length : lengths) {
    documents.emplace_back();
    for (int32_t i = 0; i < length; ++i) documents.back().push_back(next++);
  }
  return documents;
}

struct Sample {
  std::vector<int32_t> tokens, targets;
};

inline Sample read(const zrt::runtime::data::SampleSource& source, int64_t sample) {
  // One word more on both sides: a write outside is seen.
  const auto S = static_cast<size_t>(source.sequence());
  std::vector<int32_t> tokens(S + 2, -7), targets(S + 2, -7);
  source.read(sample, {tokens.data() + 1, targets.data() + 1});
  CHECK((tokens.front() == -7 && tokens.back() == -7 && targets.front() == -7 && targets.back() == -7));
  return {{tokens.begin() + 1, tokens.end() - 1}, {targets.begin() + 1, targets.end() - 1}};
}

inline zrt::runtime::data::GptDatasetOptions options_for(const std::string& prefix, int64_t sequence,
                                                         std::optional<int64_t> samples = {}) {
  zrt::runtime::data::GptDatasetOptions options;
  options.prefix = prefix;
  options.sequence = sequence;
  options.vocabulary = 60000;
  options.samples = samples;
  return options;
}

}  // namespace zrt::test
