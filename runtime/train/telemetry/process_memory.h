// Reads what the operating system says about this process's memory.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "core/arena.h"

namespace zrt::runtime {

// The driver says this about the GPUs of the process's ranks, all together.
struct GpuMemory {
  uint64_t used_bytes = 0;     // by everyone
  uint64_t context_bytes = 0;  // of them when this process had taken nothing: its CUDA context, and other processes
  uint64_t arena_bytes = 0;
  uint64_t outside_arena_bytes() const { return used_bytes - arena_bytes; }
  // cuBLAS, kernels' code, graphs, and what streams and events need.
  uint64_t library_bytes() const { return outside_arena_bytes() - context_bytes; }
  std::optional<uint64_t> nvml_process_bytes;  // where NVML tells
};

struct ProcessMemory {
  uint64_t rss_peak_bytes = 0;       // VmHWM
  uint64_t outside_arena_bytes = 0;  // resident bytes of all mappings but the arenas: code, libraries, heaps, stacks
  std::optional<GpuMemory> gpu;
};

// Reads /proc/self/status and /proc/self/smaps. Throws core::Error when they cannot be read.
ProcessMemory read_process_memory(std::span<const core::Arena* const> arenas);

}  // namespace zrt::runtime
