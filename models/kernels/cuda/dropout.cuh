// Random words and dropout masks of eight consecutive elements, as on the CPU.
#pragma once
#include <cstdint>

#include "core/philox.h"
#include "models/kernels/cuda/vector_io.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {

// The words of elements first … first + 7; two Philox blocks, or three when `first` is no multiple of 4.
__device__ inline void random_words(const core::RngKey& key, uint64_t first, uint32_t (&words)[group]) {
  const uint64_t block = first >> 2;
  const unsigned skip = static_cast<unsigned>(first & 3);
  uint32_t drawn[12] = {};
#pragma unroll
  for (int b = 0; b < 3; ++b) {
    if (b < 2 || skip != 0) {
      const auto four = core::philox(key, block + b);
#pragma unroll
      for (int i = 0; i < 4; ++i) drawn[4 * b + i] = four[i];
    }
  }
#pragma unroll
  for (int i = 0; i < group; ++i) {
    // Chosen among constant places, so that the words stay in registers.
    const uint32_t low = skip & 1 ? drawn[i + 1] : drawn[i], high = skip & 1 ? drawn[i + 3] : drawn[i + 2];
    words[i] = skip & 2 ? high : low;
  }
}

__device__ inline void dropout_mask(const Dropout& dropout, uint64_t first, float (&mask)[group]) {
  uint32_t words[group];
  random_words(dropout.key, first, words);
  const float scale = 1.0f / (1.0f - dropout.probability);
#pragma unroll
  for (int i = 0; i < group; ++i) mask[i] = core::uniform(words[i]) >= dropout.probability ? scale : 0.0f;
}

}  // namespace zrt::models::cuda
