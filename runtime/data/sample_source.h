// The trainer reads numbered samples of S tokens and their S targets.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/sample_rows.h"

namespace zrt::runtime::data {

// The place of a sample's first token.
struct SampleOrigin {
  int64_t dataset = 0;   // of those in data.train, in their order
  int64_t document = 0;  // in the dataset
  int64_t offset = 0;    // in tokens, inside the document
};

// Facts that tell two datasets apart.
struct DatasetFacts {
  std::string prefix;  // as the configuration names it
  int64_t documents = 0, tokens = 0;
  std::string xxh3, tokens_xxh3;  // of TokenDocuments
  std::string tokenizer;          // name, hash and size of the one that made it; "" where no description says
  bool templated = false;         // its documents stand in the tokenizer's template
  std::string counts_xxh3 = {};   // of TokenMask; "" where all tokens count
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  virtual int64_t size() const = 0;      // samples
  virtual int64_t sequence() const = 0;  // S

  // Fills tokens[0..S) and targets[0..S) of sample 0 <= `sample` < size(); targets[i] is the token after tokens[i],
  // or models::not_counted. Fills positions[0..S), too, unless it is null.
  // May run in many threads. Throws DataError when the number is out of range or a token is outside the vocabulary.
  virtual void read(int64_t sample, const SampleRows& to) const = 0;
  // The targets of a sample that enter the loss. It is asked for all samples of a step on every rank, so it must cost
  // much less than read(). Throws like it.
  virtual int64_t counted(int64_t sample) const = 0;
  // Throws DataError when the number is out of range.
  virtual SampleOrigin origin(int64_t sample) const = 0;
  // Describes the datasets of the samples, in the order of SampleOrigin::dataset. Reads some tokens; throws DataError.
  virtual std::vector<DatasetFacts> datasets() const = 0;
  // Says what of the data no sample has, a sentence for each dataset that leaves something out.
  virtual std::vector<std::string> left_out() const { return {}; }
  // Says how full samples are, a sentence for each dataset whose documents are packed.
  virtual std::vector<std::string> fullness() const { return {}; }
};

}  // namespace zrt::runtime::data
