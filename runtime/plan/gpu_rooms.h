// Tells configurations of one run what each of their ranks may use of this machine's GPUs.
#pragma once
#include <cstdint>
#include <map>
#include <optional>

#include "runtime/plan/gpus.h"
#include "runtime/plan/limits.h"

namespace zrt::runtime {

// Asks the driver once for each number of ranks, so that all configurations of a search are judged alike.
class GpuRooms {
 public:
  // ranks: those of the run on this machine; room: what its processes have agreed on, if they have.
  GpuRooms(const Config& config, uint64_t ranks, const std::optional<GpuRoom>& room);
  // Throws ConfigError where there are too few GPUs for the run's own ranks, the first that are asked for; others have
  // no room then.
  Limits limits(uint64_t ranks);

 private:
  const GpuRoom& of(uint64_t ranks);

  const bool share_;
  const Reserved reserved_;
  std::map<uint64_t, GpuRoom> rooms_;
};

}  // namespace zrt::runtime
