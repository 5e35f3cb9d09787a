#include "runtime/data/numpy_random.h"

namespace zrt::runtime::data {

uint64_t NumpyRandom::interval(uint64_t max) {
  if (max == 0) return 0;  // draws nothing
  uint64_t mask = max;
  for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
  uint64_t value = 0;
  // Small intervals use one 32-bit word a try, large ones two.
  if (max <= 0xffffffffu)
    while ((value = next32() & mask) > max) {
    }
  else
    while ((value = next64() & mask) > max) {
    }
  return value;
}

double numpy_sum(std::span<const double> values) {
  const size_t n = values.size();
  if (n > 128) {
    const size_t half = n / 2 - n / 2 % 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  size_t i = 0;
  double sum = 0;
  if (n >= 8) {
    double part[8];
    for (size_t j = 0; j < 8; ++j) part[j] = values[j];
    for (i = 8; i + 8 <= n; i += 8)
      for (size_t j = 0; j < 8; ++j) part[j] += values[i + j];
    sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
  }
  for (; i < n; ++i) sum += values[i];
  return sum;
}

}  // namespace zrt::runtime::data
