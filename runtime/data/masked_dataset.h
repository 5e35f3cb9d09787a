// Samples for a model that names hidden tokens (Devlin et al., "BERT", 2019), from samples of plain text:
//   [CLS] text [SEP], or with Masking::sentence_order [CLS] one run [SEP] the other run [SEP]
// Of each sample exactly Masking::predicted() tokens are chosen, whole words or single tokens in random order, of which
// the last word may be cut. Of these each is hidden with probability 0.8, a token of text drawn anew with 0.1, and left
// alone with 0.1; targets name what it was, and are not_counted elsewhere. Choices depend on the seed, the sample's
// number and the token's place alone, so that they are the same on every mesh, and behind a resume.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "models/masking.h"
#include "runtime/data/sample_source.h"
#include "runtime/data/tokenizer.h"

namespace zrt::runtime::data {

struct MaskedOptions {
  models::Masking masking = {};
  std::vector<WordPart> parts;  // by token, all of the model's vocabulary
  uint64_t seed = 0;
  // Tokens that a chosen one may become: ids below `text`, or all of the vocabulary where 0; never `end`, the end of a
  // document.
  int64_t text = 0;
  int32_t end = -1;
};

// Says of each token which part of a word it is; where masking is of single tokens, each is a word. `tokenizer` is that
// of the text; null where it is unknown. Throws ConfigError where masking needs one, and where it uses an id of masking
// for text.
std::vector<WordPart> word_parts(const models::Masking& masking, const Tokenizer* tokenizer, int64_t vocabulary);

class MaskedDataset : public SampleSource {
 public:
  // `text` has samples of masking.text(sequence) tokens.
  MaskedDataset(std::shared_ptr<const SampleSource> text, int64_t sequence, MaskedOptions options);

  int64_t size() const override { return text_->size(); }
  int64_t sequence() const override { return sequence_; }
  // Throws DataError where the text has a token of masking's.
  void read(int64_t sample, const SampleRows& to) const override;
  int64_t counted(int64_t) const override { return options_.masking.predicted(sequence_); }
  SampleOrigin origin(int64_t sample) const override { return text_->origin(sample); }
  std::vector<DatasetFacts> datasets() const override { return text_->datasets(); }

 private:
  uint32_t draw(uint32_t purpose, int64_t sample, int64_t place) const;
  void lay_out(int64_t sample, int32_t* tokens, int32_t* targets) const;
  // The places of the tokens that targets name.
  std::vector<int64_t> choose(int64_t sample, const int32_t* tokens) const;

  std::shared_ptr<const SampleSource> text_;
  int64_t sequence_;
  MaskedOptions options_;
  std::vector<int32_t> ordinary_;  // tokens that a chosen one may become
};

}  // namespace zrt::runtime::data
