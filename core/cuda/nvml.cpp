// NVML is part of the driver, so it is loaded when it is asked for and may be missing.
#include "core/cuda/nvml.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>

namespace zrt::core::cuda {
namespace {

// These parts of nvml.h are used; not every toolkit carries it.
using Device = struct NvmlDevice*;
struct Process {
  unsigned pid;
  unsigned long long bytes;
  unsigned instance, compute_instance;
};
constexpr int success = 0;
constexpr unsigned long long not_available = ~0ull;

template <class Function>
Function* symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

std::optional<NvmlMemory> nvml_memory() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return std::nullopt;
  const auto start = symbol<int()>(library, "nvmlInit_v2");
  const auto stop = symbol<int()>(library, "nvmlShutdown");
  const auto find = symbol<int(const char*, Device*)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto list = symbol<int(Device, unsigned*, Process*)>(library, "nvmlDeviceGetComputeRunningProcesses_v3");
  std::optional<NvmlMemory> memory;
  if (start && stop && find && list && start() == success) {
    std::array<char, 32> bus{};
    std::array<Process, 256> processes{};
    auto count = static_cast<unsigned>(processes.size());
    int current = 0;
    Device device = nullptr;
    if (cudaGetDevice(&current) == cudaSuccess &&
        cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), current) == cudaSuccess &&
        find(bus.data(), &device) == success && list(device, &count, processes.data()) == success) {
      for (unsigned i = 0; i < count; ++i) {
        // A driver that hides the numbers of processes lists the only one there is.
        if (processes[i].pid != static_cast<unsigned>(getpid()) && count > 1) continue;
        if (processes[i].bytes == not_available) continue;
        memory = NvmlMemory{processes[i].bytes};
      }
    }
    stop();
  }
  dlclose(library);
  return memory;
}

}  // namespace zrt::core::cuda
