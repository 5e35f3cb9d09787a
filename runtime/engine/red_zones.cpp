#include "runtime/engine/red_zones.h"

#include "core/arena.h"
#include "core/device.h"

namespace zrt::runtime {

void paint_red_zones(std::span<std::byte* const> zones) {
  if (core::place().device == core::DeviceKind::cuda) return cuda::paint_red_zones(zones);
  for (std::byte* zone : zones) core::paint_red_zone(zone);
}

void check_red_zones(std::span<std::byte* const> zones, uint32_t op, BrokenZone* broken) {
  if (core::place().device == core::DeviceKind::cuda) return cuda::check_red_zones(zones, op, broken);
  for (size_t i = 0; i < zones.size(); ++i) {
    if (broken->op != 0 || core::red_zone_intact(zones[i])) continue;
    *broken = {op + 1, static_cast<uint32_t>(i)};
  }
}

}  // namespace zrt::runtime
