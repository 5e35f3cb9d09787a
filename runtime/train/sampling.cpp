#include "runtime/train/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/philox.h"

namespace zrt::runtime {

std::vector<Candidate> candidates(std::span<const float> logits, const Sampling& sampling) {
  const auto vocab = static_cast<int64_t>(logits.size());
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const bool greedy = sampling.temperature <= 0;
  const int64_t keep = greedy ? 1 : sampling.top_k > 0 ? std::min(sampling.top_k, vocab) : vocab;
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  std::partial_sort(order.begin(), order.begin() + keep, order.end(),
                    [&](int32_t a, int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  if (greedy) return {{order[0], 1}};
  std::vector<Candidate> kept;
  double total = 0;
  for (int64_t i = 0; i < keep; ++i) {
    const int32_t token = order[static_cast<size_t>(i)];
    const float above = logit(token) - logit(order[0]);
    kept.push_back({token, std::exp(static_cast<double>(above) / sampling.temperature)});
    total += kept.back().weight;
  }
  if (sampling.top_p >= 1) return kept;
  size_t count = 0;
  for (double before = 0; count < kept.size() && (count == 0 || before < sampling.top_p * total); ++count) {
    before += kept[count].weight;
  }
  kept.resize(count);
  return kept;
}

int32_t choose_token(std::span<const float> logits, const Sampling& sampling, uint32_t sample, uint64_t position) {
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    throw core::DataError(
        "the model's output is not a number: the weights are finite, but the model overflows on this text. The run has "
        "diverged; train again with a lower optimizer.params.lr or with gradient_clipping.");
  }
  const std::vector<Candidate> kept = candidates(logits, sampling);
  if (kept.size() == 1) return kept[0].token;
  double total = 0;
  for (const Candidate& candidate : kept) total += candidate.weight;
  // The index at which the running sum of probabilities passes a uniform number.
  double left = static_cast<double>(core::uniform(core::random_word({sampling.seed, sample, 0}, position))) * total;
  size_t pick = 0;
  while (pick + 1 < kept.size() && left >= kept[pick].weight) left -= kept[pick++].weight;
  return kept[pick].token;
}

}  // namespace zrt::runtime
