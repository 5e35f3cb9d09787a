#include "core/philox.h"

#include <cmath>

namespace zrt::core {
namespace {

struct Pair {
  float even, odd;
};

Pair box_muller(uint32_t first, uint32_t second) {
  const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(uniform(first))));
  const double angle = 6.283185307179586 * static_cast<double>(uniform(second));
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

}  // namespace

float random_normal(const RngKey& key, uint64_t index) {
  float value;
  random_normals(key, index, 1, &value);
  return value;
}

void random_normals(const RngKey& key, uint64_t first, int64_t count, float* out) {
  const uint64_t end = first + static_cast<uint64_t>(count);
  for (uint64_t block = first & ~uint64_t{3}; block < end; block += 4) {
    const auto words = philox(key, block >> 2);
    for (uint64_t pair = block; pair < block + 4; pair += 2) {
      if (pair + 2 <= first || pair >= end) continue;
      const Pair values = box_muller(words[pair & 3], words[(pair & 3) + 1]);
      if (pair >= first) out[pair - first] = values.even;
      if (pair + 1 >= first && pair + 1 < end) out[pair + 1 - first] = values.odd;
    }
  }
}

}  // namespace zrt::core
