// Data-parallel loops inside one rank. The thread count is run.threads_per_rank, set once per lane thread, never read
// from the machine, because it is part of the repeat contract.
#pragma once
#include <cstdint>
#include <functional>

namespace zrt::core {

// Sets the number of threads that loops and oneDNN use when called from the calling thread.
void set_threads(int count);
int threads();

// Calls body(begin, end) on disjoint pieces that cover [0, count); pieces are multiples of `grain` except the last.
// With one thread it is a plain call, so that ThreadSanitizer never sees the OpenMP runtime.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace zrt::core
