// Names of tiers and memory categories, and the ledger: one entry per buffer of a rank.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zrt::core {

enum class Tier : uint8_t { device, host, nvme };
inline constexpr size_t tier_count = 3;
inline constexpr std::array<std::string_view, tier_count> tier_names{"device", "host", "nvme"};

// The keys of "categories" in memory.json.
enum class Category : uint8_t {
  weights,
  grads,
  master,
  moment1,
  moment2,
  gathered,
  activations,
  recompute,
  comm,
  staging,
  workspace
};
inline constexpr size_t category_count = 11;
inline constexpr std::array<std::string_view, category_count> category_names{
    "weights",     "grads",     "master", "moment1", "moment2",  "gathered",
    "activations", "recompute", "comm",   "staging", "workspace"};

using CategoryBytes = std::array<uint64_t, category_count>;

struct LedgerEntry {
  std::string name;
  Category category = Category::workspace;
  Tier tier = Tier::device;
  uint64_t offset = 0;  // bytes from the arena's start
  uint64_t bytes = 0;
};

// "name category tier offset size" lines, largest first, at most `rows` of them: for errors and reports.
std::string format_ledger(std::vector<LedgerEntry> entries, size_t rows);

std::string format_bytes(uint64_t bytes);  // "1.50 GiB", exact bytes below 1 KiB

}  // namespace zrt::core
