// The bytes behind every buffer, at core::place(): painted before an op writes the buffer, checked behind it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace zrt::runtime {

using RedZones = std::vector<std::byte*>;

// The first zone that was found damaged; lies in the control block, so that a GPU can write it.
struct BrokenZone {
  uint32_t op = 0;    // its number in the program + 1; 0: none
  uint32_t zone = 0;  // among those of the op
};

void paint_red_zones(std::span<std::byte* const> zones);
// Writes to `broken` when a zone is damaged and nothing has been written there yet.
void check_red_zones(std::span<std::byte* const> zones, uint32_t op, BrokenZone* broken);

namespace cuda {
void paint_red_zones(std::span<std::byte* const> zones);
void check_red_zones(std::span<std::byte* const> zones, uint32_t op, BrokenZone* broken);
}  // namespace cuda

}  // namespace zrt::runtime
