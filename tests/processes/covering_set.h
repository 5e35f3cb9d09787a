// Few cases that have every pair of settings together: each row takes one of the values of every dimension.
#pragma once
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace zrt::testing {

using CoveringRow = std::vector<size_t>;  // by dimension, the number of its value

// Rows of values of dimensions with so many values each, that `legal` allows, until all pairs that some row may have
// are covered: each row is the best of some drawn ones.
inline std::vector<CoveringRow> covering_rows(const std::vector<size_t>& values, std::mt19937& draw,
                                              const std::function<bool(const CoveringRow&)>& legal) {
  constexpr int drawn = 2000;  // for each row
  using Pair = std::array<size_t, 4>;
  const auto pairs_of = [](const CoveringRow& row) {
    std::vector<Pair> pairs;
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = a + 1; b < row.size(); ++b) pairs.push_back({a, row[a], b, row[b]});
    }
    return pairs;
  };
  std::set<Pair> covered;
  std::vector<CoveringRow> rows;
  while (true) {
    CoveringRow best;
    size_t most = 0;
    for (int i = 0; i < drawn; ++i) {
      CoveringRow row;
      for (const size_t count : values) row.push_back(draw() % count);
      if (!legal(row)) continue;
      size_t fresh = 0;
      for (const Pair& pair : pairs_of(row)) fresh += covered.count(pair) == 0;
      if (fresh > most) best = row, most = fresh;
    }
    if (most == 0) return rows;
    for (const Pair& pair : pairs_of(best)) covered.insert(pair);
    rows.push_back(best);
  }
}

}  // namespace zrt::testing
