// Asks the driver's management library about this process's memory on the current GPU.
#pragma once
#include <cstdint>
#include <optional>

namespace zrt::core::cuda {

struct NvmlMemory {
  uint64_t process_bytes = 0;
};
// None where the library is missing or does not say it, as inside some containers and virtual machines.
std::optional<NvmlMemory> nvml_memory();

}  // namespace zrt::core::cuda
