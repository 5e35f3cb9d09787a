// Eight elements of a storage type at a time, as fp32 numbers: 16-byte accesses where the address allows them, single
// ones elsewhere and in a last group that is cut off by the end (`left` elements remain). Which of the two is asked at
// each access: kernels compiled for either would be twice as many.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "core/dtype.h"

namespace zrt::models::cuda {

inline constexpr int group = 8;

// Eight elements while they wait in registers.
template <class T>
struct Raw {
  uint4 words[group * sizeof(T) / 16];
};

__device__ inline float widen(float x) {
  return x;
}
__device__ inline float widen(core::bf16 x) {
  return core::to_float(x);
}
__device__ inline float widen(core::f16 x) {
  return __half2float(__ushort_as_half(x.bits));
}

template <class T>
__device__ T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline core::bf16 narrow<core::bf16>(float x) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}
template <>
__device__ inline core::f16 narrow<core::f16>(float x) {
  return {__half_as_ushort(__float2half_rn(x))};
}

__device__ inline float2 widen_pair(core::bf16, uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
}
__device__ inline float2 widen_pair(core::f16, uint32_t pair) {
  return {widen(core::f16{static_cast<uint16_t>(pair)}), widen(core::f16{static_cast<uint16_t>(pair >> 16)})};
}
__device__ inline uint32_t narrow_pair(core::bf16, float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return __bfloat16_as_ushort(pair.x) | static_cast<uint32_t>(__bfloat16_as_ushort(pair.y)) << 16;
}
__device__ inline uint32_t narrow_pair(core::f16, float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return __half_as_ushort(__low2half(pair)) | static_cast<uint32_t>(__half_as_ushort(__high2half(pair))) << 16;
}

template <class T>
__device__ inline void unpack(const Raw<T>& raw, float (&x)[group]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x[4 * i] = __uint_as_float(raw.words[i].x), x[4 * i + 1] = __uint_as_float(raw.words[i].y);
      x[4 * i + 2] = __uint_as_float(raw.words[i].z), x[4 * i + 3] = __uint_as_float(raw.words[i].w);
    }
  } else {
    const uint32_t words[4] = {raw.words[0].x, raw.words[0].y, raw.words[0].z, raw.words[0].w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = widen_pair(T{}, words[i]);
      x[2 * i] = pair.x, x[2 * i + 1] = pair.y;
    }
  }
}

template <class T>
__device__ inline Raw<T> pack(const float (&x)[group]) {
  Raw<T> raw;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      raw.words[i] = {__float_as_uint(x[4 * i]), __float_as_uint(x[4 * i + 1]), __float_as_uint(x[4 * i + 2]),
                      __float_as_uint(x[4 * i + 3])};
    }
  } else {
    raw.words[0] = {narrow_pair(T{}, x[0], x[1]), narrow_pair(T{}, x[2], x[3]), narrow_pair(T{}, x[4], x[5]),
                    narrow_pair(T{}, x[6], x[7])};
  }
  return raw;
}

// True where all of the group is there and can be moved 16 bytes at a time.
__device__ inline bool whole(const void* group_at, int64_t left) {
  return left >= group && (reinterpret_cast<uintptr_t>(group_at) & 15) == 0;
}

// A group that is known to be whole().
template <class T>
__device__ inline Raw<T> load_words(const T* from) {
  Raw<T> raw;
#pragma unroll
  for (size_t i = 0; i < group * sizeof(T) / 16; ++i) raw.words[i] = reinterpret_cast<const uint4*>(from)[i];
  return raw;
}
template <class T>
__device__ inline void save_words(T* to, const float (&x)[group]) {
  const Raw<T> raw = pack<T>(x);
#pragma unroll
  for (size_t i = 0; i < group * sizeof(T) / 16; ++i) reinterpret_cast<uint4*>(to)[i] = raw.words[i];
}

// Elements from `left` on are read as 0 and not written.
template <class T>
__device__ inline Raw<T> load_raw(const T* from, int64_t left) {
  if (whole(from, left)) return load_words(from);
  // Bit for bit: what looks like a NaN may be half of something else.
  uint32_t words[group * sizeof(T) / 4] = {};
#pragma unroll
  for (int i = 0; i < group; ++i) {
    if constexpr (sizeof(T) == 4) {
      words[i] = i < left ? __float_as_uint(from[i]) : 0u;
    } else {
      words[i / 2] |= (i < left ? uint32_t{from[i].bits} : 0u) << 16 * (i % 2);
    }
  }
  Raw<T> raw;
#pragma unroll
  for (size_t i = 0; i < group * sizeof(T) / 16; ++i) {
    raw.words[i] = {words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
  }
  return raw;
}

template <class T>
__device__ inline void load(const T* from, int64_t left, float (&x)[group]) {
  unpack<T>(load_raw(from, left), x);
}

template <class T>
__device__ inline void save(T* to, int64_t left, const float (&x)[group]) {
  if (whole(to, left)) return save_words(to, x);
#pragma unroll
  for (int i = 0; i < group; ++i) {
    if (i < left) to[i] = narrow<T>(x[i]);
  }
}

// The high halves of eight fp32 numbers, which are bf16 numbers, as they are.
__device__ inline void save_high(core::bf16* to, int64_t left, const float (&x)[group]) {
  if (whole(to, left)) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words[i] = __float_as_uint(x[2 * i]) >> 16 | (__float_as_uint(x[2 * i + 1]) & 0xffff0000u);
    }
    *reinterpret_cast<uint4*>(to) = {words[0], words[1], words[2], words[3]};
    return;
  }
#pragma unroll
  for (int i = 0; i < group; ++i) {
    if (i < left) to[i].bits = static_cast<uint16_t>(__float_as_uint(x[i]) >> 16);
  }
}

}  // namespace zrt::models::cuda
