#include "core/gpu.h"

#include "core/cuda/backend.h"
#include "core/error.h"

namespace zrt::core {

int gpu_count() {
  return 0;
}
GpuInfo gpu_info(int) {
  throw Error(cuda::not_built);
}
std::string gpu_name(int) {
  throw Error(cuda::not_built);
}
uint64_t free_gpu_bytes(int) {
  throw Error(cuda::not_built);
}
uint64_t total_gpu_bytes(int) {
  throw Error(cuda::not_built);
}
int current_gpu() {
  return 0;
}
OnGpu::OnGpu(int) : before_(0) {}
OnGpu::~OnGpu() = default;
std::string connect_gpus(std::span<const int>) {
  return "";
}
std::string unconnectable_gpus(std::span<const int>) {
  return "";
}

}  // namespace zrt::core
