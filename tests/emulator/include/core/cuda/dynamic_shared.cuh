// Stands for core/cuda/dynamic_shared.cuh.
#pragma once
#include <cuda_runtime.h>

namespace zrt::core::cuda {

template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(emulator::shared_memory());
}

}  // namespace zrt::core::cuda
