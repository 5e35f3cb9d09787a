#include <algorithm>

#include "core/arena.h"
#include "core/cuda/launch.cuh"
#include "runtime/engine/red_zones.h"

namespace zrt::runtime::cuda {
namespace {

constexpr size_t zones_per_launch = 64;
struct Zones {
  std::byte* at[zones_per_launch];
};
static_assert(core::red_zone_bytes == 64, "one thread paints a byte");

__global__ void paint(Zones zones) {
  zones.at[blockIdx.x][threadIdx.x] = std::byte{core::red_zone_byte};
}

__global__ void inspect(Zones zones, uint32_t first, uint32_t op, BrokenZone* broken) {
  const std::byte found = zones.at[blockIdx.x][threadIdx.x];
  const bool damaged = found != std::byte{core::red_zone_byte} && found != std::byte{core::canary_byte};
  if (__syncthreads_or(damaged) == 0 || threadIdx.x != 0) return;
  if (atomicCAS(&broken->op, 0u, op + 1) == 0) broken->zone = first + blockIdx.x;
}

// Calls launch(zones, their number, number of the first) for as many as one launch takes.
template <class Launch>
void in_launches(std::span<std::byte* const> zones, const Launch& launch) {
  for (size_t first = 0; first < zones.size(); first += zones_per_launch) {
    const size_t count = std::min(zones_per_launch, zones.size() - first);
    Zones some{};
    std::copy_n(zones.begin() + static_cast<std::ptrdiff_t>(first), count, some.at);
    launch(some, static_cast<unsigned>(count), static_cast<uint32_t>(first));
  }
}

}  // namespace

void paint_red_zones(std::span<std::byte* const> zones) {
  in_launches(zones,
              [](const Zones& some, unsigned count, uint32_t) { core::cuda::launch(paint, count, 64, 0, some); });
}

void check_red_zones(std::span<std::byte* const> zones, uint32_t op, BrokenZone* broken) {
  in_launches(zones, [&](const Zones& some, unsigned count, uint32_t first) {
    core::cuda::launch(inspect, count, 64, 0, some, first, op, broken);
  });
}

}  // namespace zrt::runtime::cuda
