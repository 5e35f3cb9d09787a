// Stands for core/cuda/launch.cuh.
#pragma once
#include <cuda_runtime.h>

#include "core/cuda/cuda.h"

namespace zrt::core::cuda {

template <class... Params, class... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared, Args&&... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = shared, config.stream = stream();
  ZRT_CUDA(cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...));
}

template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(emulator::shared_memory());
}

}  // namespace zrt::core::cuda
