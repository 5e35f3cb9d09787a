// Cuts the elements of a device sum: 16 bytes of every source at a time where all addresses allow it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace zrt::comm::cuda {

inline constexpr size_t vector_bytes = 16;

// `head` elements, then `vectors` groups of vector_bytes / from_size elements, then what is left one by one.
struct ReduceShape {
  int64_t head = 0, vectors = 0;
};

// Vectors begin where all sources, the target and what the sum goes on from, where there is any, lie on a multiple of
// vector_bytes; none do unless one offset suits all.
inline ReduceShape reduce_shape(std::span<const void* const> sources, size_t from_size, const void* target,
                                size_t to_size, int64_t count, const float* before = nullptr) {
  const auto per_vector = static_cast<int64_t>(vector_bytes / from_size);
  for (int64_t head = 0; head < per_vector && head < count; ++head) {
    const auto aligned = [&](const void* data, size_t size) {
      return (reinterpret_cast<uintptr_t>(data) + static_cast<size_t>(head) * size) % vector_bytes == 0;
    };
    bool all = aligned(target, to_size) && (!before || aligned(before, sizeof(float)));
    for (const void* source : sources) all = all && aligned(source, from_size);
    if (all) return {head, (count - head) / per_vector};
  }
  return {};
}

}  // namespace zrt::comm::cuda
