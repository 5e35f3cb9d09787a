#include "tests/seed.h"

#include <cstdlib>
#include <random>
#include <string>

namespace zrt::test {

uint32_t test_seed() {
  static const uint32_t seed = [] {
    const char* wished = std::getenv("ZRT_TEST_SEED");
    return wished ? static_cast<uint32_t>(std::stoul(wished)) : static_cast<uint32_t>(std::random_device{}());
  }();
  return seed;
}

}  // namespace zrt::test
