// Element types and their exact conversions. bf16, fp16 and e4m3 are storage types; arithmetic is fp32.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/host_device.h"

namespace zrt::core {

enum class DType : uint8_t { f32, bf16, f16, i32, u8, e4m3 };

size_t dtype_size(DType type);            // bytes of one element
std::string_view dtype_name(DType type);  // "fp32", "bf16", "fp16", "int32", "uint8", "e4m3"

struct bf16 {
  uint16_t bits = 0;
};
struct f16 {
  uint16_t bits = 0;
};
// The 8-bit number of matrix products: a sign, 4 bits of exponent with bias 7, 3 of mantissa. The largest is 448; there
// are no infinities, and only all ones are NaN.
struct e4m3 {
  uint8_t bits = 0;
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

ZRT_HD inline float to_float(e4m3 x) {
  const uint32_t sign = (x.bits & 0x80u) << 24, magnitude = x.bits & 0x7fu;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000u);
  const uint32_t normal = (magnitude << 20) + (120u << 23);
  const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-9f);
  return std::bit_cast<float>(sign | (magnitude < 8 ? subnormal : normal));
}

// Round to nearest, ties to even; finite numbers beyond 448 become 448. Infinities become NaN, so that a gradient which
// overflowed is still seen.
ZRT_HD inline e4m3 to_e4m3(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x), magnitude = u & 0x7fffffffu;
  // Below 2^-6 the fp32 addition rounds to a multiple of 2^-9, the spacing of subnormals.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0x1p14f) - 0x46800000u;
  const uint32_t normal = (magnitude + 0x7ffffu + ((magnitude >> 20) & 1u) - (120u << 23)) >> 20;
  const uint32_t finite = magnitude < 0x3c800000u ? subnormal : magnitude > 0x43e00000u ? 0x7eu : normal;
  return e4m3{static_cast<uint8_t>((u >> 24 & 0x80u) | (magnitude >= 0x7f800000u ? 0x7fu : finite))};
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
