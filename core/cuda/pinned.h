// Pinned memory of the host, in any size: the memory of states that stay there is most of a machine's.
#pragma once
#include <cstdint>

namespace zrt::core::cuda {

// Returns memory on whole pages, filled with `fill`; null when the system or the driver refuses.
void* allocate_pinned(uint64_t bytes, uint8_t fill);
void release_pinned(void* memory);

}  // namespace zrt::core::cuda
