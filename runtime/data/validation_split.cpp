#include "runtime/data/validation_split.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "runtime/data/numpy_random.h"

namespace zrt::runtime::data {

ValidationSplit split_documents(const std::vector<int64_t>& sizes, double fraction) {
  // Fewer documents say too little about the text they were drawn from.
  constexpr int64_t fewest = 10;
  constexpr double least_share = 0.8;

  const double target = fraction * static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  std::vector<int64_t> drawn(sizes.size());
  std::iota(drawn.begin(), drawn.end(), int64_t{0});
  NumpyRandom(1).shuffle(std::span(drawn));

  ValidationSplit split;
  split.chosen.resize(sizes.size(), 0);
  int64_t bytes = 0, documents = 0;
  for (const int64_t document : drawn) {
    const int64_t size = sizes[static_cast<size_t>(document)];
    if (static_cast<double>(bytes + size) > target) continue;
    split.chosen[static_cast<size_t>(document)] = 1;
    bytes += size;
    ++documents;
  }
  split.by_document = documents >= fewest && static_cast<double>(bytes) >= least_share * target;
  if (!split.by_document) split.chosen.clear();
  return split;
}

size_t cut_document(std::string_view document, double fraction) {
  const size_t size = document.size();
  const auto part = static_cast<size_t>(std::llround(fraction * static_cast<double>(size)));
  if (part == 0 || part >= size) return size;
  const size_t exact = size - part, reach = part / 2;

  // A line starts after a newline; both searches stay within `reach` of the exact place.
  const size_t lowest = exact - std::min(exact, reach), highest = exact + reach;
  const size_t before = document.substr(0, exact).rfind('\n');
  const size_t after = document.substr(0, highest).find('\n', exact);
  const bool has_before = before != std::string_view::npos && before + 1 >= std::max<size_t>(lowest, 1);
  const bool has_after = after != std::string_view::npos && after + 1 < size;
  if (has_before && (!has_after || exact - (before + 1) <= after + 1 - exact)) return before + 1;
  if (has_after) return after + 1;

  size_t cut = exact;
  while (cut > 0 && exact - cut < 4 && (static_cast<unsigned char>(document[cut]) & 0xC0) == 0x80) --cut;
  return cut > 0 ? cut : size;
}

}  // namespace zrt::runtime::data
