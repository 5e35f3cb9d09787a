// The bytes behind every buffer, at core::place(): painted before an op writes the buffer, checked behind it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/program/control.h"

namespace zrt::runtime {

using RedZones = std::vector<std::byte*>;

void paint_red_zones(std::span<std::byte* const> zones);
// Writes to `broken` when a zone is damaged and nothing has been written there yet.
void check_red_zones(std::span<std::byte* const> zones, uint32_t op, BrokenZone* broken);

namespace cuda {
void paint_red_zones(std::span<std::byte* const> zones);
void check_red_zones(std::span<std::byte* const> zones, uint32_t op, BrokenZone* broken);
}  // namespace cuda

}  // namespace zrt::runtime
