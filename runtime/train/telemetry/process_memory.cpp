#include "runtime/train/telemetry/process_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "core/cuda/backend.h"
#include "core/cuda/nvml.h"
#include "core/error.h"
#include "core/gpu.h"

namespace zrt::runtime {

ProcessMemory read_process_memory(std::span<const core::Arena* const> arenas) {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status"), maps("/proc/self/smaps");
  if (!status || !maps) throw core::Error("/proc/self/status and smaps cannot be read; memory cannot be measured");
  std::string line;
  unsigned long long kib = 0;
  while (std::getline(status, line)) {
    if (std::sscanf(line.c_str(), "VmHWM: %llu kB", &kib) == 1) memory.rss_peak_bytes = kib << 10;
  }
  // A mapping next to an arena may be merged with it: count what lies outside the arenas' own ranges. Arenas of other
  // processes are mapped too where ranks share them.
  const std::string shared = fmt::format("/memfd:{}", core::shared_arena_name);
  uint64_t inside = 0, begin = 0, end = 0;
  while (std::getline(maps, line)) {
    unsigned long long from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &from, &to) == 2 && line.find(':') > 8) {
      begin = from, end = to;
      inside = line.find(shared) == std::string::npos ? 0 : end - begin;
      for (const core::Arena* arena : arenas) {
        const auto low = reinterpret_cast<uint64_t>(arena->data()), high = low + arena->mapped_bytes();
        if (inside < end - begin && low < end && begin < high) inside += std::min(high, end) - std::max(low, begin);
      }
    } else if (std::sscanf(line.c_str(), "Rss: %llu kB", &kib) == 1) {
      const uint64_t resident = kib << 10;
      memory.outside_arena_bytes += resident > inside ? resident - inside : 0;
    }
  }
  std::set<int> gpus;
  for (const core::Arena* arena : arenas) {
    if (!arena->on_gpu()) continue;
    if (!memory.gpu) memory.gpu = GpuMemory{0, 0, 0, 0};
    memory.gpu->arena_bytes += arena->mapped_bytes();
    gpus.insert(arena->gpu());
  }
  for (const int gpu : gpus) {
    const core::OnGpu here(gpu);
    const core::cuda::Memory said = core::cuda::memory();
    memory.gpu->used_bytes += said.total - said.free;
    memory.gpu->context_bytes += said.context;
    const auto nvml = core::cuda::nvml_memory();
    if (!nvml) memory.gpu->nvml_process_bytes.reset();
    if (memory.gpu->nvml_process_bytes) *memory.gpu->nvml_process_bytes += nvml->process_bytes;
  }
  return memory;
}

}  // namespace zrt::runtime
