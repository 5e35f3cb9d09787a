// One number in the 8-bit forms and in bf16, for kernel files that are compiled once per instruction set, and for
// those of the CUDA back end: internal linkage, no branches, the same bits everywhere.
//
// A code k of 1 to `top` stands for scale · 2^(x) with fp32 bits one − ((top − k) << 20): the upper three bits of the
// significand and an exponent, up to 1. Code 0 is 0. The largest magnitude of a block is its scale and has the code
// `top`, so reading a block and writing it again gives the same scale and the same codes: what is read is a relative
// 2^-23 off scale · value, the quotient as much again, and neighbouring codes differ by a relative 2^-4 or more.
#pragma once
#include "core/kernel_convert.h"

namespace zrt::core {
namespace {

constexpr uint32_t one_bits = 0x3f800000u;
constexpr int code_shift = 20;  // fp32 bits below those of a code
constexpr uint32_t signed_top = 127, unsigned_top = 255;
constexpr uint32_t signed_least = one_bits - ((signed_top - 1) << code_shift);  // fp32 bits of code 1
constexpr uint32_t unsigned_least = one_bits - ((unsigned_top - 1) << code_shift);
constexpr uint32_t least_scale = 0x12800000u;  // 2^-90, or a block is 0: no product of a scale and a code is subnormal
constexpr uint32_t most_scale = 0x7f7fffffu;   // the largest finite number

// The noise that rounds to nearest. Noise is added below the bits that are kept: 16 random bits round up with the
// probability that makes the mean exact.
constexpr uint32_t to_nearest = 0x8000u;

// The scale's bits from the largest bits of a magnitude in the block. What is not finite counts as the largest number.
ZRT_HD inline uint32_t scale_bits(uint32_t most) {
  const uint32_t finite = most > most_scale ? most_scale : most;
  return finite < least_scale ? 0u : finite;
}

ZRT_HD inline float read_signed(uint32_t code, float scale) {
  const uint32_t k = code & 0x7fu;
  const uint32_t bits = k == 0 ? 0u : one_bits - ((signed_top - k) << code_shift);
  return bits_float(float_bits(bits_float(bits) * scale) | (code & 0x80u) << 24);
}
ZRT_HD inline float read_unsigned(uint32_t code, float scale) {
  const uint32_t bits = code == 0 ? 0u : one_bits - ((unsigned_top - code) << code_shift);
  return bits_float(bits) * scale;
}

// The code of a number whose quotient by the scale has fp32 bits of at least code 1's.
ZRT_HD inline uint32_t normal_code(uint32_t quotient, uint32_t least, uint32_t noise) {
  const uint32_t raised = quotient + ((noise << 4) | 8u);
  return ((raised > one_bits ? one_bits : raised) - least + (1u << code_shift)) >> code_shift;
}

// Returns the code of `x` in a block whose scale is not 0. Below code 1 the noise chooses between it and 0.
ZRT_HD inline uint32_t write_signed(float x, float scale, uint32_t noise) {
  const uint32_t quotient = float_bits(bits_float(float_bits(x) & 0x7fffffffu) / scale);
  const float part = bits_float(quotient) * (0x1p16f / bits_float(signed_least));
  const uint32_t below = part > static_cast<float>(static_cast<int32_t>(noise)) ? 1u : 0u;
  const uint32_t k = quotient < signed_least ? below : normal_code(quotient, signed_least, noise);
  return k == 0 ? 0u : k | ((float_bits(x) >> 24) & 0x80u);
}
ZRT_HD inline uint32_t write_unsigned(float x, float scale, uint32_t noise) {
  const uint32_t quotient = float_bits(x / scale);
  const uint32_t below = x > 0 ? 1u : 0u;
  return quotient < unsigned_least ? below : normal_code(quotient, unsigned_least, noise);
}

// Infinities stay, NaN stays NaN.
ZRT_HD inline uint16_t write_bf16(float x, uint32_t noise) {
  const uint32_t u = float_bits(x);
  const bool special = (u & 0x7f800000u) == 0x7f800000u, nan = (u & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(special ? (u >> 16) | (nan ? 0x40u : 0u) : (u + noise) >> 16);
}

}  // namespace
}  // namespace zrt::core
