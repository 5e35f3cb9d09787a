// The seed of a test program's random numbers: ZRT_TEST_SEED, or a fresh one, which main prints when a test fails.
#pragma once
#include <cstdint>

namespace zrt::test {

uint32_t test_seed();

}  // namespace zrt::test
