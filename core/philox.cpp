#include "core/philox.h"

#include <cmath>

namespace zrt::core {

float random_normal(const RngKey& key, uint64_t index) {
  const auto words = philox(key, index >> 2);
  const unsigned pair = static_cast<unsigned>(index & 2);
  const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(uniform(words[pair]))));
  const double angle = 6.283185307179586 * static_cast<double>(uniform(words[pair + 1]));
  return static_cast<float>(radius * ((index & 1) ? std::sin(angle) : std::cos(angle)));
}

}  // namespace zrt::core
