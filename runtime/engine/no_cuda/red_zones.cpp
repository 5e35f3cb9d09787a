// Stands for cuda/ in builds without the CUDA Toolkit: no place is a GPU there.
#include "runtime/engine/red_zones.h"

#include "core/cuda/backend.h"
#include "core/error.h"

namespace zrt::runtime::cuda {

void paint_red_zones(std::span<std::byte* const>) {
  throw core::Error(core::cuda::not_built);
}
void check_red_zones(std::span<std::byte* const>, uint32_t, BrokenZone*) {
  throw core::Error(core::cuda::not_built);
}

}  // namespace zrt::runtime::cuda
