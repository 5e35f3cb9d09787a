// Test data of any float type, and the ordered reference sum.
#pragma once
#include <cstring>
#include <vector>

#include "comm/communicator.h"
#include "core/philox.h"

namespace zrt::comm {

using Bytes = std::vector<std::byte>;

inline float load(const std::byte* data, int64_t i, DType type) {
  const std::byte* p = data + static_cast<size_t>(i) * core::dtype_size(type);
  uint16_t half = 0;
  float value = 0;
  if (type == DType::f32) {
    std::memcpy(&value, p, 4);
    return value;
  }
  std::memcpy(&half, p, 2);
  return type == DType::bf16 ? core::to_float(core::bf16{half}) : core::to_float(core::f16{half});
}

inline uint16_t round_half(float value, DType type) {
  return type == DType::bf16 ? core::to_bf16(value).bits : core::to_f16(value).bits;
}

inline void save(std::byte* data, int64_t i, DType type, float value) {
  if (type == DType::f32) {
    reinterpret_cast<float*>(data)[i] = value;
  } else {
    reinterpret_cast<uint16_t*>(data)[i] = round_half(value, type);
  }
}

// `count` normal numbers that depend on the rank and the salt.
inline Bytes make_values(int64_t count, DType type, int rank, uint32_t salt) {
  Bytes data(static_cast<size_t>(count) * core::dtype_size(type));
  const core::RngKey key{.seed = salt, .step = 0, .tensor = static_cast<uint32_t>(rank)};
  for (int64_t i = 0; i < count; ++i) {
    save(data.data(), i, type, core::random_normal(key, static_cast<uint64_t>(i)));
  }
  return data;
}

// The fp32 sum of element i over the sources in order.
inline float ordered_sum(const std::vector<Bytes>& sources, int64_t i, DType type) {
  float sum = load(sources[0].data(), i, type);
  for (size_t r = 1; r < sources.size(); ++r) sum += load(sources[r].data(), i, type);
  return sum;
}

inline const std::vector<DType>& float_types() {
  static const std::vector<DType> types{DType::f32, DType::bf16, DType::f16};
  return types;
}

}  // namespace zrt::comm
