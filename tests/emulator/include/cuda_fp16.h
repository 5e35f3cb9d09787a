#pragma once
#include <array>

#include "core/dtype.h"
#include "emulator/device.h"

struct __half_raw {
  unsigned short x;
};
struct __half {
  uint16_t bits;
  __half() = default;
  __half(__half_raw raw) : bits(raw.x) {}
  explicit operator __half_raw() const { return {bits}; }
};
struct alignas(4) __half2 {
  __half x, y;
};
inline __half __ushort_as_half(unsigned short x) {
  return __half(__half_raw{x});
}
inline unsigned short __half_as_ushort(__half x) {
  return x.bits;
}
// Emulated tensor cores read halves by the million, so all there are stand in a table.
inline const auto zrt_emulated_halves = [] {
  std::array<float, 65536> values;
  for (unsigned bits = 0; bits < values.size(); ++bits) {
    values[bits] = zrt::core::to_float(zrt::core::f16{static_cast<uint16_t>(bits)});
  }
  return values;
}();
inline float __half2float(__half x) {
  return zrt_emulated_halves[x.bits];
}
inline __half __float2half_rn(float x) {
  return __ushort_as_half(zrt::core::to_f16(x).bits);
}
inline __half __float2half(float x) {
  return __float2half_rn(x);
}
inline __half2 __floats2half2_rn(float x, float y) {
  __half2 pair;
  pair.x = __float2half_rn(x), pair.y = __float2half_rn(y);
  return pair;
}
inline float __low2float(__half2 x) {
  return __half2float(x.x);
}
inline float __high2float(__half2 x) {
  return __half2float(x.y);
}
inline __half __low2half(__half2 x) {
  return x.x;
}
inline __half __high2half(__half2 x) {
  return x.y;
}
