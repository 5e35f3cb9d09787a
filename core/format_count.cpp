#include "core/format_count.h"

#include <fmt/format.h>

#include <array>

namespace zrt::core {

std::string format_count(int64_t count) {
  if (count < 1000) return std::to_string(count);
  constexpr std::array<const char*, 5> units{"", "K", "M", "B", "T"};
  auto value = static_cast<double>(count);
  size_t unit = 0;
  // 999.5 of a unit are 1.00 of the next.
  while (value >= 999.5 && unit + 1 < units.size()) value /= 1000, ++unit;
  return fmt::format("{:.{}f}{}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, units[unit]);
}

}  // namespace zrt::core
