// A model that reads text from both sides is trained on samples of which some tokens are hidden, which it is to name
// (Devlin et al., "BERT", 2019).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace zrt::models {

inline constexpr int32_t not_counted = -1;  // a target without a token

struct Masking {
  int32_t cls = 0, separator = 0, mask = 0;  // ids of tokens that no text has
  double rate = 0.15;                        // of a sample's tokens, those that targets name
  bool whole_words = false;                  // hidden together
  bool sentence_order = false;               // samples are two runs of text, and the model is to tell which comes first

  // Tokens that targets name in a sample of T: always as many, so that a batch's loss is divided by what is known
  // before.
  int64_t predicted(int64_t T) const {
    return std::clamp<int64_t>(std::llround(rate * static_cast<double>(T)), 1, text(T));
  }
  // Tokens of text in a sample of T, beside [CLS] in front and [SEP] behind each run of text.
  int64_t text(int64_t T) const { return T - (sentence_order ? 3 : 2); }
};

// The target of a sample's first token where the model is to tell the order of its two runs of text. It is no token,
// and counts as none.
inline constexpr int32_t in_order = -2, swapped = -3;

}  // namespace zrt::models
