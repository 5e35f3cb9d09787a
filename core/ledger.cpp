#include "core/ledger.h"

#include <fmt/format.h>

#include <algorithm>

namespace zrt::core {

std::string format_ledger(std::vector<LedgerEntry> entries, size_t rows) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text;
  for (size_t i = 0; i < entries.size() && i < rows; ++i) {
    const LedgerEntry& entry = entries[i];
    text += fmt::format("  {:<40} {:<12} {:<7} {:>14} {:>12}\n", entry.name,
                        category_names[static_cast<size_t>(entry.category)],
                        tier_names[static_cast<size_t>(entry.tier)], entry.offset, format_bytes(entry.bytes));
  }
  if (entries.size() > rows) text += fmt::format("  … and {} smaller buffers\n", entries.size() - rows);
  return text;
}

std::string format_bytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) value /= 1024, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

}  // namespace zrt::core
