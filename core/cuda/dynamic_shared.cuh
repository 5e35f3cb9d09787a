// Tells kernels where they find the shared memory that their launch asked for.
#pragma once
#include <cuda_runtime.h>

namespace zrt::core::cuda {

template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ uint4 zrt_dynamic_shared[];
  return reinterpret_cast<T*>(zrt_dynamic_shared);
}

}  // namespace zrt::core::cuda
