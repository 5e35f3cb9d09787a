#include "models/kernels/attention_pattern.h"

#include <mutex>
#include <tuple>
#include <vector>

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
  static std::mutex mutex;
  static std::vector<std::tuple<AttentionPattern, int64_t, double>> known;  // costs ask again and again
  const std::lock_guard lock(mutex);
  for (const auto& [pattern, length, found] : known) {
    if (pattern == *this && length == T) return found;
  }
  const int64_t n = blocks(T), all = causal ? n * (n + 1) / 2 : n * n;
  int64_t count = 0;
  for (int head = 0; head < choices; ++head) count += kept(T, head);
  known.emplace_back(*this, T, static_cast<double>(count) / static_cast<double>(all * choices));
  return std::get<double>(known.back());
}

}  // namespace zrt::models
