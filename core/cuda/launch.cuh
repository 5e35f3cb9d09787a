// How kernels are started, and where they find the shared memory that their launch asked for.
#pragma once
#include <cuda_runtime.h>

#include <utility>

#include "core/cuda/cuda.h"

namespace zrt::core::cuda {

// On the stream of place(), with `shared` bytes of dynamic shared memory. Throws core::Error when the launch is
// refused.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared, Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = shared, config.stream = stream();
  ZRT_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}

template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ uint4 zrt_dynamic_shared[];
  return reinterpret_cast<T*>(zrt_dynamic_shared);
}

}  // namespace zrt::core::cuda
