#include "models/kernels/attention_pattern.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <vector>

namespace zrt::models {

AttentionPattern AttentionPattern::of_window(int64_t positions, int64_t T) {
  AttentionPattern pattern;
  if (positions >= T) return pattern;
  pattern.kind = Kind::sliding, pattern.global = 0, pattern.window = static_cast<int>(positions);
  // Blocks before a query's own that the first of its positions may see.
  pattern.local = 2 * ((pattern.window + pattern.block - 2) / pattern.block);
  return pattern;
}

int64_t AttentionPattern::kept(int64_t T, int64_t head) const {
  const int n = blocks(T);
  const HeadPattern pattern = of(head, n);
  std::vector<int> standing(static_cast<size_t>(n) + 1);  // of the blocks before each
  for (size_t at = 0; at < static_cast<size_t>(n); ++at) {
    standing[at + 1] = standing[at] + (pattern.stands(static_cast<int>(at)) ? 1 : 0);
  }
  int64_t count = 0;
  for (int query = 0; query < n; ++query) {
    const int last = causal ? query : n - 1;
    if (kind == Kind::dense || (horizontal && pattern.stands(query))) {
      count += last + 1;
      continue;
    }
    const bool fixed = kind == Kind::fixed;
    const int begin = fixed ? query / local * local : std::max(0, query - local / 2);
    const int end = std::min(last, fixed ? begin + local - 1 : query + local / 2) + 1;
    const auto before = [&](int other) { return standing[static_cast<size_t>(other)]; };
    count += end - begin + before(last + 1) - (before(end) - before(begin));
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
