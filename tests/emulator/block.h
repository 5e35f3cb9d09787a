// Runs the blocks of a grid, one after the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "emulator/device.h"

namespace zrt::emulator {

// Calls `thread` for every thread of the grid, with `now` set. Throws what a thread throws. A barrier that some threads
// never reach ends in a deadlock, which is what a GPU would do, too.
void run_grid(dim3 grid, dim3 block, size_t shared, const std::function<void()>& thread);

unsigned shared_bytes();  // dynamic, of the block

// cp.async: the bytes arrive when the thread waits for them, not earlier.
struct PendingCopy {
  std::byte* to;
  const void* from;  // null: zeros
  unsigned bytes;
};
std::vector<PendingCopy>& pending_copies();  // of the thread whose turn it is

}  // namespace zrt::emulator
