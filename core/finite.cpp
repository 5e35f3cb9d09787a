#include "core/finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace zrt::core {

uint32_t largest_magnitude(std::span<const float> values) {
  uint32_t most = 0;
  for (const float value : values) most = std::max(most, magnitude(value));
  return most;
}

uint32_t first_infinite(DType type) {
  if (type == DType::f16) return 0x477ff000;  // 65520
  return type == DType::bf16 ? 0x7f7f8000 : 0x7f800000;
}

int64_t first_not_finite(std::span<const float> values, DType type) {
  constexpr size_t together = 1024;  // a loop without a branch, before one that looks for the place
  const uint32_t infinite = first_infinite(type);
  for (size_t at = 0; at < values.size(); at += together) {
    if (largest_magnitude(values.subspan(at, std::min(together, values.size() - at))) < infinite) continue;
    while (magnitude(values[at]) < infinite) ++at;
    return static_cast<int64_t>(at);
  }
  return -1;
}

std::string value_text(float value) {
  if (std::isnan(value)) return "NaN";
  return std::isinf(value) ? (value < 0 ? "-infinity" : "infinity") : fmt::format("{:.3g}", value);
}

std::string not_finite_note(float value, DType type) {
  return std::isfinite(value) ? fmt::format("; {} has no such number", dtype_name(type)) : "";
}

}  // namespace zrt::core
