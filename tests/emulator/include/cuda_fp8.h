#pragma once
#include <cmath>

#include "core/dtype.h"
#include "emulator/device.h"

enum __nv_saturation_t { __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3 };
using __nv_fp8x2_storage_t = unsigned short;

// Rounds as the PTX manual has it: what is too large, infinities too, becomes 448, and NaN has no sign.
inline unsigned fp8_of(float x) {
  if (std::isnan(x)) return 0x7f;
  return zrt::core::to_e4m3(std::clamp(x, -448.0f, 448.0f)).bits;
}
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t, __nv_fp8_interpretation_t) {
  return static_cast<__nv_fp8x2_storage_t>(fp8_of(x.x) | fp8_of(x.y) << 8);
}
