// Starts kernels.
#pragma once
#include <cuda_runtime.h>

#include <utility>

#include "core/cuda/cuda.h"

namespace zrt::core::cuda {

// Launches `kernel` on the stream of place(), with `shared` bytes of dynamic shared memory. Throws core::Error when the
// launch is refused.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared, Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = shared, config.stream = stream();
  ZRT_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}

}  // namespace zrt::core::cuda
