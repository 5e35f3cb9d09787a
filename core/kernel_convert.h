// Conversions of dtype.h for kernel files that are compiled once per instruction set: the same bits, but internal
// linkage and no branches, so that loops over them vectorise in every set and no copy is shared between the sets.
// Kernels of the CUDA back end that owe the same bits call them too.
#pragma once
#include "core/dtype.h"
#include "core/host_device.h"

namespace zrt::core {
namespace {

ZRT_HD inline uint32_t float_bits(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
ZRT_HD inline float bits_float(uint32_t x) {
  return __builtin_bit_cast(float, x);
}

ZRT_HD inline float widen(float x) {
  return x;
}
ZRT_HD inline float widen(bf16 x) {
  return bits_float(static_cast<uint32_t>(x.bits) << 16);
}
ZRT_HD inline float widen(f16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  const uint32_t subnormal = float_bits(static_cast<float>(static_cast<int32_t>(magnitude & 0x3ffu)) * 0x1p-24f);
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t special = (magnitude << 13) | 0x7f800000u;
  const uint32_t finite = magnitude < 0x400u ? subnormal : normal;
  return bits_float(sign | (magnitude >= 0x7c00u ? special : finite));
}

ZRT_HD inline void narrow(float x, float& to) {
  to = x;
}
ZRT_HD inline void narrow(float x, bf16& to) {
  const uint32_t u = float_bits(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = (u >> 16) | 0x40u;
  to.bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}
ZRT_HD inline void narrow(float x, f16& to) {
  const uint32_t u = float_bits(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  // Below 2^-14 the fp32 addition rounds to a multiple of 2^-24, the spacing of fp16 subnormals.
  const uint32_t subnormal = float_bits(bits_float(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  const uint32_t large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  to.bits = static_cast<uint16_t>(sign | (magnitude >= 0x477ff000u ? large : finite));
}

}  // namespace
}  // namespace zrt::core
