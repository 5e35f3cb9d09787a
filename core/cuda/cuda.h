// Errors and the stream of the calling thread, for files of the CUDA back end alone.
#pragma once
#include <cuda_runtime_api.h>

namespace zrt::core::cuda {

// Throws core::Error with the expression and the place in the source; MemoryError when memory ran out.
[[noreturn]] void fail(cudaError_t code, const char* expression, const char* file, int line);

inline void check(cudaError_t code, const char* expression, const char* file, int line) {
  if (code != cudaSuccess) fail(code, expression, file, line);
}
#define ZRT_CUDA(expression) ::zrt::core::cuda::check((expression), #expression, __FILE__, __LINE__)

// The CUDA stream of place(), for one piece of work that the caller queues at once; may wait until the stream has room
// for it. Throws core::Error on a thread without one.
cudaStream_t stream();

// Properties of the calling thread's GPU; each is asked for once.
int multiprocessors();
int compute_capability();  // 90 for 9.0

// True where the calling thread's GPU can run the kernels of this build.
bool has_image();

}  // namespace zrt::core::cuda
