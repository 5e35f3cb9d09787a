// Values in pinned memory that streams wait for and write, for files of the CUDA back end alone.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace zrt::core::cuda {

// `word` is pinned or registered. Both queue, and throw core::Error where the driver cannot do it.
void wait_value(cudaStream_t stream, const void* word, uint32_t at_least);
void write_value(cudaStream_t stream, const void* word, uint32_t value);

}  // namespace zrt::core::cuda
