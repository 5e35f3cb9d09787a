// Packing by best fit decreasing.
#include "runtime/data/best_fit.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "catch.h"
#include "tests/seed.h"

namespace zrt::best_fit_test {
namespace {

using runtime::data::best_fit;
using runtime::data::Packing;
using Lengths = std::vector<int32_t>;

// The same by looking at every bin: of those with the least room that suffices, the one that was touched last.
Packing plain_best_fit(const Lengths& lengths, int64_t size) {
  struct Bin {
    int64_t room, touched;
  };
  std::vector<size_t> sorted(lengths.size());
  std::iota(sorted.begin(), sorted.end(), size_t{0});
  std::stable_sort(sorted.begin(), sorted.end(), [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  std::vector<Bin> bins;
  Packing packing{std::vector<int64_t>(lengths.size()), 0};
  int64_t now = 0;
  for (const size_t piece : sorted) {
    size_t best = bins.size();
    for (size_t i = 0; i < bins.size(); ++i) {
      if (bins[i].room < lengths[piece]) continue;
      if (best == bins.size() || bins[i].room < bins[best].room ||
          (bins[i].room == bins[best].room && bins[i].touched > bins[best].touched))
        best = i;
    }
    if (best == bins.size()) bins.push_back({size, 0});
    bins[best] = {bins[best].room - lengths[piece], ++now};
    packing.bins[piece] = static_cast<int64_t>(best);
  }
  packing.count = static_cast<int64_t>(bins.size());
  return packing;
}

std::vector<int64_t> fill_of(const Lengths& lengths, const Packing& packing) {
  std::vector<int64_t> fill(static_cast<size_t>(packing.count), 0);
  for (size_t i = 0; i < lengths.size(); ++i) fill.at(static_cast<size_t>(packing.bins[i])) += lengths[i];
  return fill;
}

// The lengths in each bin, both sorted.
std::vector<Lengths> contents_of(const Lengths& lengths, const Packing& packing) {
  std::vector<Lengths> contents(static_cast<size_t>(packing.count));
  for (size_t i = 0; i < lengths.size(); ++i) contents[static_cast<size_t>(packing.bins[i])].push_back(lengths[i]);
  for (Lengths& bin : contents) std::sort(bin.begin(), bin.end());
  std::sort(contents.begin(), contents.end());
  return contents;
}

Lengths random_lengths(std::mt19937& random, size_t count, int64_t longest) {
  Lengths lengths(count);
  for (int32_t& length : lengths) length = static_cast<int32_t>(1 + random() % static_cast<uint64_t>(longest));
  return lengths;
}

}  // namespace

TEST_CASE("each piece goes into the fullest bin that has room, the longest first") {
  // 6 opens a bin; 5 another; 4 goes to the 6, 3 to the 5, and 2 beside it; the last 2 has no room left.
  const Packing packing = best_fit(Lengths{2, 3, 6, 2, 4, 5}, 10);
  CHECK(packing.bins == std::vector<int64_t>{1, 1, 0, 2, 0, 1});
  CHECK(packing.count == 3);
  CHECK(best_fit({}, 10).count == 0);
  CHECK(best_fit(Lengths{7, 7}, 7).bins == std::vector<int64_t>{0, 1});
  CHECK(best_fit(Lengths{1, 1, 1}, 1).count == 3);
}

TEST_CASE("packing is that of a search through all bins, whatever the lengths and the size") {
  std::mt19937 random(test::test_seed());
  // Sizes around powers of 64 have searches that climb over words of rooms.
  for (const int64_t size : {1, 2, 7, 63, 64, 65, 200, 4095, 4096, 4097, 300000}) {
    for (const int64_t longest : {size, (size + 1) / 2, std::min<int64_t>(size, 9)}) {
      INFO(size << ", " << longest);
      const Lengths lengths = random_lengths(random, 400, longest);
      const Packing packing = best_fit(lengths, size), plain = plain_best_fit(lengths, size);
      CHECK(packing.count == plain.count);
      CHECK(packing.bins == plain.bins);
    }
  }
}

TEST_CASE("no bin is too full, and all but one are more than half full") {
  std::mt19937 random(test::test_seed());
  for (const int64_t size : {10, 100, 2048}) {
    const Lengths lengths = random_lengths(random, 3000, size);
    std::vector<int64_t> fill = fill_of(lengths, best_fit(lengths, size));
    std::sort(fill.begin(), fill.end());
    CHECK((fill.front() > 0 && fill.back() <= size));
    REQUIRE(fill.size() > 1);
    CHECK(2 * fill[1] > size);
  }
}

TEST_CASE("the order of pieces changes which piece a bin gets and not of which lengths") {
  std::mt19937 random(test::test_seed());
  Lengths lengths = random_lengths(random, 500, 64);
  const auto expected = contents_of(lengths, best_fit(lengths, 64));
  std::shuffle(lengths.begin(), lengths.end(), random);
  CHECK(contents_of(lengths, best_fit(lengths, 64)) == expected);
}

}  // namespace zrt::best_fit_test
