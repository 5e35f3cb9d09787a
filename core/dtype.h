// Element types and their exact conversions. bf16 and fp16 are storage types; arithmetic is fp32.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/host_device.h"

namespace zrt::core {

enum class DType : uint8_t { f32, bf16, f16, i32, u8 };

size_t dtype_size(DType type);            // bytes of one element
std::string_view dtype_name(DType type);  // "fp32", "bf16", "fp16", "int32", "uint8"

struct bf16 {
  uint16_t bits = 0;
};
struct f16 {
  uint16_t bits = 0;
};

ZRT_HD inline float to_float(float x) {
  return x;
}
ZRT_HD inline float to_float(bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

// Round to nearest, ties to even; NaN stays a quiet NaN. Branch-free, so that loops vectorise.
ZRT_HD inline bf16 to_bf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t nan = (u >> 16) | 0x40u;
  return bf16{static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

// Stochastic rounding: x with the low 16 bits of `random` added below those that are kept, then cut. Infinities and NaN
// are left to rounding to nearest.
ZRT_HD inline bf16 to_bf16(float x, uint32_t random) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const bf16 cut{static_cast<uint16_t>((u + (random & 0xffffu)) >> 16)};
  return (u & 0x7f800000u) == 0x7f800000u ? to_bf16(x) : cut;
}

float to_float(f16 x);
f16 to_f16(float x);  // round to nearest, ties to even; overflow gives infinity

// The storage type T of an fp32 value: store<T>(x).
template <class T>
T store(float x);
template <>
inline float store<float>(float x) {
  return x;
}
template <>
inline bf16 store<bf16>(float x) {
  return to_bf16(x);
}
template <>
inline f16 store<f16>(float x) {
  return to_f16(x);
}

}  // namespace zrt::core
