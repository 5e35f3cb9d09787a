// Bounds how far products may lie from fp64 ones where a GPU's tensor cores add: they cut sums off where fp32 rounds
// them, and those of e4m3 keep fewer bits than fp32 has. All bounds are of the relative L2 distance, for operands of
// random signs: there a sum of j of K products has a share of sqrt(j / K) of the result's norm.
#pragma once
#include <algorithm>
#include <cmath>

#include "core/dtype.h"
#include "tests/device.h"

namespace zrt::test {

// A product that is kept in fp32, of operands of `type` and length K.
// Tensor cores take 16 products of bf16 or fp16 at a time, and cut what they add to the sum, and the sum, to 24 bits.
// So each of n = K / 16 steps loses less than a unit, 2^-23, of the sum so far: together at most 2^-23 · the sum of
// sqrt(j / n), which is 2/3 n. The 16 products of a step lose less than a unit each, towards zero and so with random
// signs: together the root of 16 n / 2 · 1/3 units, 1.7 sqrt(n). From n = 24 on both are less than n units; below, they
// are less than the bound of sums that round (the CPU's, or fp32 on either): there each of K additions costs 0.39 ·
// 2^-24 of a partial sum, which has sqrt(k / K) of the result's norm, so that all cost sqrt(K / 2) times that
// together, 1.1e-6 up to K = 4096, in whatever order (tests here have K up to 1100: 5.5e-7; see rounded_path.h for the
// 0.39).
inline double product_error(core::DType type, int64_t K) {
  constexpr double rounded = 2e-6;
  if (test_device() == core::DeviceKind::cpu || type == core::DType::f32) return rounded;
  return std::max(rounded, std::ceil(static_cast<double>(K) / 16) * 0x1p-23);
}

// The same for operands of e4m3. Hopper aligns 32 products and the sum so far to the largest of them and keeps 13 bits
// behind its first; cuBLASLt adds such sums in fp32 after at most 128 products. With k = min(K, 128) products of norm p
// the largest is about 3 p (both operands are uniform) or the sum, sqrt(k) p; each product loses less than 2^-13 of
// that, uniformly: together sqrt(k / 3) times as much, ÷ the result's sqrt(k) p. The sum itself loses 2^-13 / sqrt(3)
// of the result at most in each of k / 32 steps.
inline double product_error_e4m3(int64_t K) {
  if (test_device() == core::DeviceKind::cpu) return product_error(core::DType::bf16, K);
  const double k = static_cast<double>(std::min<int64_t>(K, 128));
  return 0x1p-13 / std::sqrt(3.0) * (std::max(3.0, std::sqrt(k)) + std::ceil(k / 32));
}

}  // namespace zrt::test
