// Packs pieces into bins of one size by best fit decreasing: the longest piece first, each into the fullest bin that
// has room for it, else into a new one (Ding et al., "Fewer Truncations Improve Language Modeling", 2024).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace zrt::runtime::data {

struct Packing {
  std::vector<int64_t> bins;  // that of each piece, numbered in the order in which they were opened
  int64_t count = 0;          // of bins
};

// Packs pieces of 1 to `size`. Among pieces of one length the first is packed first, and among bins of one room that
// takes the piece which came to it last. How many pieces of which length a bin gets depends on no order of `lengths`.
// N pieces take a time of N log(size) / log(64) + size.
Packing best_fit(std::span<const int32_t> lengths, int64_t size);

}  // namespace zrt::runtime::data
