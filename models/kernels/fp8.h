// Scales of tensors that are rounded to e4m3: powers of two, so that scaling rounds nothing and both back ends agree to
// the bit.
#pragma once
#include <bit>
#include <cstdint>

#include "core/host_device.h"

namespace zrt::models {

// Returns 2^n for n from -126 to 127.
ZRT_HD inline float power_of_two(int n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

// n of the scale 2^n for a tensor whose largest magnitude has these bits as a float: the largest power of two not above
// 448 / magnitude. 0 for a tensor of zeros or with an infinity or NaN, which reaches the result. Below 2^-109 tensors
// are scaled no further, so that what e4m3 keeps of them is no subnormal number of bf16.
ZRT_HD inline int fp8_exponent(uint32_t magnitude) {
  constexpr int most = 117;
  if (magnitude == 0 || magnitude >= 0x7f800000u) return 0;
  // 448 is 1.75 times 2^8.
  const int n = 8 + 127 - static_cast<int>(magnitude >> 23) - ((magnitude & 0x7fffffu) > 0x600000u ? 1 : 0);
  return n < most ? n : most;
}

}  // namespace zrt::models
