#include "core/philox.h"

#include <cmath>
#include <vector>

#include "catch.h"

namespace zrt::core::philox_test {
namespace {

using Words = std::array<uint32_t, 4>;

// Published with Random123; the counter is (index low, index high, tensor, step), the key is the seed, low half first.
TEST_CASE("philox gives the known answers of Philox4x32-10") {
  CHECK(philox({}, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const RngKey ones{.seed = ~uint64_t{0}, .step = ~0u, .tensor = ~0u};
  CHECK(philox(ones, ~uint64_t{0}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  const RngKey pi{.seed = 0x299f31d0a4093822, .step = 0x03707344, .tensor = 0x13198a2e};
  CHECK(philox(pi, 0x85a308d3243f6a88) == Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a word depends on the element alone, not on where a shard begins") {
  const RngKey key{.seed = 7, .step = 3, .tensor = 5};
  for (uint64_t begin : {0ull, 1ull, 63ull, 0xfffffffdull}) {
    for (uint64_t i = 0; i < 9; ++i)
      CHECK(random_word(key, begin + i) == philox(key, (begin + i) / 4)[(begin + i) % 4]);
  }
  CHECK(random_word({.seed = 7, .step = 4, .tensor = 5}, 0) != random_word(key, 0));
  CHECK(random_word({.seed = 7, .step = 3, .tensor = 6}, 0) != random_word(key, 0));
  CHECK(random_word({.seed = 8, .step = 3, .tensor = 5}, 0) != random_word(key, 0));
}

TEST_CASE("uniform numbers lie strictly between 0 and 1, also at both ends") {
  CHECK(uniform(0) > 0.0f);
  CHECK(uniform(0xffffffffu) < 1.0f);
  CHECK(uniform(0xffffff00u) < 1.0f);
}

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, neighbour = 0;
};

template <class Draw>
Moments moments(int count, Draw draw) {
  std::vector<double> x;
  Moments m;
  for (int i = 0; i < count; ++i) x.push_back(static_cast<double>(draw(static_cast<uint64_t>(i))));
  for (double v : x) m.mean += v / count;
  for (double v : x) m.variance += (v - m.mean) * (v - m.mean) / count;
  const double sigma = std::sqrt(m.variance);
  for (size_t i = 0; i < x.size(); ++i) {
    const double z = (x[i] - m.mean) / sigma;
    m.skew += z * z * z / count;
    m.kurtosis += z * z * z * z / count;
    if (i > 0) m.neighbour += z * (x[i - 1] - m.mean) / sigma / count;
  }
  return m;
}

// Bounds are about five standard errors at 400,000 numbers.
TEST_CASE("uniform numbers have the moments of their law") {
  const RngKey key{.seed = 1, .step = 2, .tensor = 3};
  const Moments m = moments(400000, [&](uint64_t i) { return uniform(random_word(key, i)); });
  CHECK(std::abs(m.mean - 0.5) < 0.0025);
  CHECK(std::abs(m.variance - 1.0 / 12) < 0.0006);
  CHECK(std::abs(m.skew) < 0.01);
  CHECK(std::abs(m.kurtosis - 1.8) < 0.012);
  CHECK(std::abs(m.neighbour) < 0.008);
}

TEST_CASE("normal numbers have the moments of their law and depend on the element alone") {
  const RngKey key{.seed = 1, .step = init_step, .tensor = 9};
  const Moments m = moments(400000, [&](uint64_t i) { return random_normal(key, i); });
  CHECK(std::abs(m.mean) < 0.008);
  CHECK(std::abs(m.variance - 1) < 0.012);
  CHECK(std::abs(m.skew) < 0.02);
  CHECK(std::abs(m.kurtosis - 3) < 0.04);
  CHECK(std::abs(m.neighbour) < 0.008);
  CHECK(random_normal(key, 12345) == random_normal(key, 12345));
  for (uint64_t first = 0; first < 9; ++first) {
    for (int64_t count = 0; count < 11; ++count) {
      std::vector<float> run(static_cast<size_t>(count));
      random_normals(key, first, count, run.data());
      for (int64_t i = 0; i < count; ++i) {
        CHECK(run[static_cast<size_t>(i)] == random_normal(key, first + static_cast<uint64_t>(i)));
      }
    }
  }
  CHECK(random_normal(key, 0) != random_normal(key, 2));
}

}  // namespace
}  // namespace zrt::core::philox_test
