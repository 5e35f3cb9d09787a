// Says which keys a query of a sparse pattern sees, written out position by position, for references.
#pragma once
#include <algorithm>
#include <cstdint>

#include "models/kernels/attention_pattern.h"

namespace zrt::test {

// `head` among all heads of a layer.
inline bool sees(const models::AttentionPattern& p, int64_t T, int64_t head, int64_t query, int64_t key) {
  if (p.causal && key > query) return false;
  if (!p.sparse()) return true;
  if (p.window > 0) return query - key < p.window;
  const int64_t blocks = (T + p.block - 1) / p.block, q = query / p.block, k = key / p.block;
  if (p.kind == models::AttentionPattern::Kind::sliding) {
    const int64_t apart = q > k ? q - k : k - q;
    return apart <= p.local / 2 || k < p.global || (p.horizontal && q < p.global);
  }
  if (q / p.local == k / p.local) return true;
  const int64_t place = p.local - (1 + head % p.choices) * p.global, end = blocks / p.local * p.local;
  const auto stands = [&](int64_t at) {
    for (int64_t window = 0; window < end; window += p.local) {
      if (at >= window + place && at < window + place + p.global) return true;
    }
    const int64_t last = std::min(end + place, blocks - p.global);
    return end < blocks && at >= last && at < last + p.global;
  };
  return stands(k) || (p.horizontal && stands(q));
}

}  // namespace zrt::test
