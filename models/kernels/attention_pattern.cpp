#include "models/kernels/attention_pattern.h"

namespace zrt::models {

int64_t AttentionPattern::kept(int64_t T, int64_t head) const {
  const int n = blocks(T);
  const HeadPattern pattern = of(head, n);
  int64_t count = 0;
  for (int query = 0; query < n; ++query) {
    for (int key = 0; key < n; ++key) count += pattern.keeps(query, key) ? 1 : 0;
  }
  return count;
}

double AttentionPattern::share(int64_t T) const {
  if (!sparse()) return 1;
  const int64_t n = blocks(T), all = causal ? n * (n + 1) / 2 : n * n;
  int64_t count = 0;
  for (int head = 0; head < choices; ++head) count += kept(T, head);
  return static_cast<double>(count) / static_cast<double>(all * choices);
}

}  // namespace zrt::models
