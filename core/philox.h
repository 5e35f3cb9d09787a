// Counter-based random numbers (Philox4x32-10: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
// A number depends only on (seed, step, tensor, global element index), never on which rank, thread or order makes it.
#pragma once
#include <array>
#include <cstdint>

#include "core/host_device.h"

namespace zrt::core {

struct RngKey {
  uint64_t seed = 0;
  uint32_t step = 0;    // optimizer step; init_step for initialisation
  uint32_t tensor = 0;  // number of the tensor or dropout site, the same on every layout
};

inline constexpr uint32_t init_step = 0xffffffffu;

// Four 32-bit words for block `index` of the key's stream. The step and the tensor share the counter with the index.
ZRT_HD inline std::array<uint32_t, 4> philox(const RngKey& key, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32), c2 = key.tensor, c3 = key.step;
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0, n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1), c3 = static_cast<uint32_t>(p0), c0 = n0, c2 = n2;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// Word of element `index`: element 4i + j is word j of block i.
ZRT_HD inline uint32_t random_word(const RngKey& key, uint64_t index) {
  return philox(key, index >> 2)[index & 3];
}

// Uniform in (0, 1), never 0 or 1. 23 bits, because half of a 24-bit step above 0.5 would round up to 1.
ZRT_HD inline float uniform(uint32_t word) {
  return (static_cast<float>(word >> 9) + 0.5f) * 0x1p-23f;
}

// Standard normal of element `index` (Box-Muller; elements 2i and 2i + 1 share two words).
float random_normal(const RngKey& key, uint64_t index);

// out[i] = random_normal(key, first + i) for i < count, at a third of the cost.
void random_normals(const RngKey& key, uint64_t first, int64_t count, float* out);

}  // namespace zrt::core
