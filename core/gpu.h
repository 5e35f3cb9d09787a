// The GPUs that this process sees, numbered as CUDA numbers them, and the one that a thread works with.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace zrt::core {

int gpu_count();  // 0 where there is none, or none can be used

struct GpuInfo {
  std::string name, uuid;  // "NVIDIA H100 80GB HBM3", "GPU-8f1c…"
  int numa_node = -1;      // of the host's memory near it; -1: not known
};
GpuInfo gpu_info(int number);
std::string gpu_name(int number);
uint64_t free_gpu_bytes(int number);
uint64_t total_gpu_bytes(int number);  // as CUDA has them, used or not

int current_gpu();  // of the calling thread
// Lets the calling thread allocate and make streams on GPU `number` as long as it lives. A new thread works with GPU 0.
// Streams and memory stay with their GPU whatever the thread that uses them works with. In a build without the CUDA
// Toolkit it does nothing.
class OnGpu {
 public:
  explicit OnGpu(int number);
  ~OnGpu();
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  int before_;
};

// Lets kernels of each of these GPUs read the memory of the others in place, for the rest of the process. Returns the
// pairs that cannot, "0 and 1, 0 and 2"; sums over ranks copy what they read there first. "" where all can.
std::string connect_gpus(std::span<const int> numbers);
// The same pairs, without connecting any.
std::string unconnectable_gpus(std::span<const int> numbers);

}  // namespace zrt::core
