// A flag lets CUDA streams go on without a call of CUDA: they wait for a word of pinned memory that a thread of the
// host writes.
//
// CUDA does not see this order, so work that a flag depends on must have been queued before the wait for it; then no
// order in which the GPU takes streams up can deadlock. Events see to that: one can be waited for only when it has been
// recorded.
#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>

namespace zrt::core::cuda {

// Words only ever count up, and a wait is for at least `value`, so a raised flag's word may be taken again at once,
// also while streams have yet to see it.
struct Flag {
  std::atomic<uint32_t>* word;
  uint32_t value;
};

// Returns a flag that is not raised yet. Throws MemoryError when there is no pinned memory for more.
Flag take_flag();
// Queues the wait. Throws core::Error where the driver cannot do it.
void wait_for(cudaStream_t stream, const Flag& flag);
// Once per flag, by any thread: what this thread wrote before is seen by what the streams do behind their wait.
void raise(const Flag& flag) noexcept;

}  // namespace zrt::core::cuda
