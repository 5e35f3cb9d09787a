#include "runtime/plan/gpu_rooms.h"

#include "core/error.h"

namespace zrt::runtime {

GpuRooms::GpuRooms(const Config& config, uint64_t ranks, const std::optional<GpuRoom>& room)
    : share_(config.run.share_gpu), reserved_(reserved_in_run(config)) {
  if (room) rooms_[ranks] = *room;
}

Limits GpuRooms::limits(uint64_t ranks) {
  return gpu_limits(of(ranks), reserved_);
}

const GpuRoom& GpuRooms::of(uint64_t ranks) {
  const auto known = rooms_.find(ranks);
  if (known != rooms_.end()) return known->second;
  GpuRoom room{1, 0};
  try {
    room = gpu_room(choose_gpus(core::DeviceKind::cuda, {static_cast<int>(ranks)}, share_));
  } catch (const core::ConfigError&) {
    if (rooms_.empty()) throw;
  }
  return rooms_[ranks] = room;
}

}  // namespace zrt::runtime
