// The random numbers of numpy's legacy RandomState(seed): MT19937 (Matsumoto and Nishimura 1998) with bounded
// integers by masked rejection. Bit for bit numpy's, whose legacy streams are frozen.
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace zrt::runtime::data {

class NumpyRandom {
 public:
  explicit NumpyRandom(uint32_t seed) : engine_(seed) {}

  uint32_t next32() { return static_cast<uint32_t>(engine_()); }
  uint64_t next64() {
    const uint64_t high = next32();
    return high << 32 | next32();
  }

  // Uniform in [0, max].
  uint64_t interval(uint64_t max);

  // numpy.random.RandomState.shuffle of a one-dimensional array.
  template <class T>
  void shuffle(std::span<T> values) {
    for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[interval(i)]);
  }

 private:
  std::mt19937 engine_;  // the standard fixes its seeding and output, which are those of numpy
};

// numpy.sum of doubles: pairwise, in blocks of eight partial sums. The last bit of a normalised weight depends on it.
double numpy_sum(std::span<const double> values);

}  // namespace zrt::runtime::data
