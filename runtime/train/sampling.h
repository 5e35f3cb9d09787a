// The choice of the next token from a model's logits.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace zrt::runtime {

struct Sampling {
  double temperature = 0.8;  // 0 takes the likeliest token
  int64_t top_k = 40;        // 0 for all
  double top_p = 1;          // of the likeliest tokens as few as have this share of the probability; 1 for all
  uint64_t seed = 1;
};

struct Candidate {
  int32_t token = 0;
  double weight = 0;  // proportional to its probability; 1 for the likeliest
};

// The tokens that may be chosen, likeliest first, equal ones by number. As in transformers logits are divided by the
// temperature, then all but top_k are dropped, then those behind top_p of what these have together.
std::vector<Candidate> candidates(std::span<const float> logits, const Sampling& sampling);

// Draws one, by the seed, the number of the sample and the position of the token before it alone. Throws DataError
// where a logit is not finite.
int32_t choose_token(std::span<const float> logits, const Sampling& sampling, uint32_t sample, uint64_t position);

}  // namespace zrt::runtime
