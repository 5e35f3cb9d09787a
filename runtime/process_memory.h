// What the operating system says about this process's memory.
#pragma once
#include <cstdint>
#include <span>

#include "core/arena.h"

namespace zrt::runtime {

struct ProcessMemory {
  uint64_t rss_peak_bytes = 0;       // VmHWM
  uint64_t outside_arena_bytes = 0;  // resident bytes of all mappings but the arenas: code, libraries, heaps, stacks
};

// Reads /proc/self/status and /proc/self/smaps. Throws core::Error when they cannot be read.
ProcessMemory read_process_memory(std::span<const core::Arena* const> arenas);

}  // namespace zrt::runtime
