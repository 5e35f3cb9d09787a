// A sum as a ring of NCCL's may take it: from the rank behind the root on, rounded to the type at every rank.
#pragma once
#include <nccl.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "core/dtype.h"

namespace zrt::emulator {

inline size_t nccl_size(ncclDataType_t type) {
  return type == ncclFloat32 ? 4 : type == ncclUint8 ? 1 : 2;
}

inline float nccl_value(ncclDataType_t type, const std::byte* from) {
  float value;
  uint16_t bits;
  if (type == ncclFloat32) return std::memcpy(&value, from, sizeof value), value;
  std::memcpy(&bits, from, sizeof bits);
  return type == ncclBfloat16 ? core::to_float(core::bf16{bits}) : core::to_float(core::f16{bits});
}

inline void put_nccl_value(ncclDataType_t type, float value, std::byte* to) {
  const uint16_t bits = type == ncclBfloat16 ? core::to_bf16(value).bits : core::to_f16(value).bits;
  std::memcpy(to, type == ncclFloat32 ? static_cast<const void*>(&value) : &bits, nccl_size(type));
}

// `by_rank`: `count` elements of each rank. `target` may be none of them.
inline void ring_sum(ncclDataType_t type, size_t count, const std::vector<const std::byte*>& by_rank, int root,
                     std::byte* target) {
  const size_t size = nccl_size(type), ranks = by_rank.size();
  for (size_t i = 0; i < count * size; i += size) {
    for (size_t hop = 1; hop <= ranks; ++hop) {
      const std::byte* own = by_rank[(static_cast<size_t>(root) + hop) % ranks] + i;
      const float before = hop == 1 ? 0 : nccl_value(type, target + i);
      put_nccl_value(type, before + nccl_value(type, own), target + i);
    }
  }
}

}  // namespace zrt::emulator
