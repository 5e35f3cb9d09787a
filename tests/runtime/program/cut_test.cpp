// Cuts of models into stages, against every cut that there is.
#include "runtime/program/cut.h"

#include <functional>
#include <numeric>

#include "catch.h"
#include "core/error.h"
#include "core/philox.h"

namespace zrt::cut_test {

using runtime::blocks_of_stages;
using runtime::cut_blocks;

namespace {

double heaviest(const std::vector<double>& weights, const std::vector<size_t>& ends) {
  double most = 0;
  for (size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++]) {
    most = std::max(most, std::accumulate(weights.begin() + static_cast<std::ptrdiff_t>(begin),
                                          weights.begin() + static_cast<std::ptrdiff_t>(ends[i]), 0.0));
  }
  return most;
}

// Returns the least that the heaviest chunk weighs in any cut.
double lightest(const std::vector<double>& weights, size_t chunks) {
  double best = 1e300;
  std::vector<size_t> ends;
  const std::function<void(size_t)> extend = [&](size_t begin) {
    if (ends.size() + 1 == chunks) {
      ends.push_back(weights.size());
      best = std::min(best, heaviest(weights, ends));
      ends.pop_back();
      return;
    }
    for (size_t end = begin + 1; end + (chunks - ends.size() - 1) <= weights.size(); ++end) {
      ends.push_back(end);
      extend(end);
      ends.pop_back();
    }
  };
  extend(0);
  return best;
}

}  // namespace

TEST_CASE("a cut's heaviest part is as light as that of any cut, and every part has a block") {
  uint64_t word = 0;
  const auto below = [&](uint32_t n) { return core::random_word({5, 0, 0}, word++) % n; };
  for (int turn = 0; turn < 300; ++turn) {
    std::vector<double> weights(1 + below(9));
    for (double& weight : weights) weight = turn % 3 == 0 ? below(2) : turn % 3 == 1 ? below(1000) : below(1000) * 1e-7;
    const size_t chunks = 1 + below(static_cast<uint32_t>(weights.size()));
    const std::vector<size_t> ends = cut_blocks(weights, chunks);
    CAPTURE(weights, chunks, ends);
    REQUIRE(ends.size() == chunks);
    CHECK(ends.back() == weights.size());
    for (size_t i = 0; i < ends.size(); ++i) CHECK(ends[i] > (i == 0 ? 0 : ends[i - 1]));
    CHECK(heaviest(weights, ends) == Approx(lightest(weights, chunks)).epsilon(1e-12));
  }
}

TEST_CASE("of equal cuts the last parts are the fullest") {
  CHECK(cut_blocks(std::vector<double>{1, 1, 1, 1, 1}, 3) == std::vector<size_t>{1, 3, 5});
  CHECK(cut_blocks(std::vector<double>{0, 1, 1, 1, 1, 0}, 2) == std::vector<size_t>{3, 6});
}

TEST_CASE("more parts than blocks are refused with what is legal") {
  CHECK_THROWS_WITH(cut_blocks(std::vector<double>{1, 1}, 3),
                    Catch::Contains("2 blocks") && Catch::Contains("3 parts") && Catch::Contains("at most 2"));
}

TEST_CASE("a stage has every chunk of its number") {
  const std::vector<size_t> ends{2, 3, 5, 6};
  CHECK(blocks_of_stages(ends, 2) == std::vector<std::vector<size_t>>{{0, 1, 3, 4}, {2, 5}});
  CHECK(blocks_of_stages(ends, 4) == std::vector<std::vector<size_t>>{{0, 1}, {2}, {3, 4}, {5}});
}

}  // namespace zrt::cut_test
