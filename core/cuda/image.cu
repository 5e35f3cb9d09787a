// Tells whether the device at hand can run what was built: all kernels of a build are for the same chips, so one tells
// of all.
#include <cuda_runtime.h>

#include "core/cuda/cuda.h"

namespace zrt::core::cuda {
namespace {

__global__ void nothing() {}

}  // namespace

bool has_image() {
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, nothing) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

}  // namespace zrt::core::cuda
