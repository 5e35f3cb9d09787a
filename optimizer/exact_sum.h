// A sum of squares that does not depend on order or grouping: 64-element chunks are summed in fp64 in a fixed lane
// order, and chunk sums are added exactly into a 320-bit fixed-point number (two's complement, least limb first;
// bit 0 = 2^-190). Chunks are aligned to 64 elements of the buffer, so any sharding at multiples of 64 gives equal
// bits. Part of the control block: kernels of a GPU add and read it too.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/dtype.h"
#include "core/host_device.h"
#include "core/kernel.h"

namespace zrt::optimizer {

struct ExactSum {
  static constexpr int size = 5;
  static constexpr int low_exponent = -190;  // of bit 0
  // From here on, chunk sums count as non-finite, so that 2^34 of them (10^12 elements) cannot leave the 320 bits.
  static constexpr double chunk_limit = 0x1p95;

  uint64_t limbs[size] = {};
  uint64_t non_finite = 0;  // chunks that hold a NaN, an infinity or a sum too large to represent

  ZRT_HD inline void add(double chunk_sum);
  ZRT_HD inline void add(const ExactSum& other);
  ZRT_HD inline double value() const;  // NaN when non_finite is not 0; else rounded to nearest
  bool operator==(const ExactSum&) const = default;
};

// Adds the squares of n elements (a multiple of 64) in fp32, bf16 or fp16. At core::place(): on a GPU, `sum` and `data`
// lie in its memory.
ZRT_KERNEL(add_squares, void(ExactSum& sum, int64_t n, const void* data, core::DType type));

// Bits below 2^-190 are rounded away (half up in magnitude), for each chunk sum by itself. Every limb is touched, with
// indices known to the compiler: a sum can live in registers.
ZRT_HD inline void ExactSum::add(double chunk_sum) {
  if (!(std::fabs(chunk_sum) < chunk_limit)) {
    ++non_finite;
    return;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(chunk_sum);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  if (exponent == 0) return;  // zero or below 2^-1022
  const bool negative = (bits >> 63) != 0;
  uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | (uint64_t{1} << 52);
  int shift = exponent - 1075 - low_exponent;
  if (shift < 0) {
    if (shift < -53) return;
    mantissa = (mantissa + (uint64_t{1} << (-shift - 1))) >> -shift;
    shift = 0;
  }
  const int first = shift / 64, bit = shift % 64;
  const uint64_t low = mantissa << bit, high = bit == 0 ? 0 : mantissa >> (64 - bit);
  uint64_t carry = 0;  // or borrow
  for (int i = 0; i < size; ++i) {
    const uint64_t part = i == first ? low : i == first + 1 ? high : 0;
    const uint64_t old = limbs[i];
    limbs[i] = negative ? old - part - carry : old + part + carry;
    carry = negative ? old < part || (carry && old == part) : limbs[i] < old || (carry && limbs[i] == old);
  }
}

ZRT_HD inline void ExactSum::add(const ExactSum& other) {
  uint64_t carry = 0;
  for (int i = 0; i < size; ++i) {
    const uint64_t old = limbs[i];
    limbs[i] = old + other.limbs[i] + carry;
    carry = limbs[i] < old || (carry && limbs[i] == old);
  }
  non_finite += other.non_finite;
}

ZRT_HD inline double ExactSum::value() const {
  if (non_finite != 0) return std::numeric_limits<double>::quiet_NaN();
  const bool negative = (limbs[size - 1] >> 63) != 0;
  uint64_t magnitude[size], carry = 1;
  for (int i = 0; i < size; ++i) {
    magnitude[i] = negative ? ~limbs[i] + carry : limbs[i];
    carry = carry && magnitude[i] == 0;
  }
  int top = size - 1;
  while (top > 0 && magnitude[top] == 0) --top;
  if (magnitude[top] == 0) return 0;
  // The leading 64 bits, with all lower bits folded into the last one, convert to fp64 with one correct rounding.
  int empty = 0;
  while ((magnitude[top] << empty) >> 63 == 0) ++empty;
  uint64_t leading = magnitude[top] << empty;
  bool rest = false;
  if (top > 0) {
    if (empty > 0) leading |= magnitude[top - 1] >> (64 - empty);
    rest = (magnitude[top - 1] << empty) != 0;
    for (int i = 0; i + 1 < top; ++i) rest = rest || magnitude[i] != 0;
  }
  if (rest) leading |= 1;
  const double rounded = static_cast<double>(leading);
  return std::ldexp(negative ? -rounded : rounded, 64 * top - empty + low_exponent);
}

}  // namespace zrt::optimizer
