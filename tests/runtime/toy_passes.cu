// One block of threads runs a whole pass: the toy's tensors have some hundred elements.
#include <cuda_fp16.h>

#include "core/cuda/launch.cuh"
#include "tests/runtime/toy_passes.h"

namespace zrt::testing {
namespace {

using core::DType;

constexpr int threads = 256;

struct OnGpu {
  template <class F>
  static __device__ void each(int64_t n, const F& f) {
    for (int64_t i = threadIdx.x; i < n; i += threads) f(i);
    __syncthreads();
  }
  template <class F>
  static __device__ double sum(int64_t n, const F& f) {
    __shared__ double terms[threads];
    double total = 0;
    for (int64_t begin = 0; begin < n; begin += threads) {
      const int64_t i = begin + threadIdx.x;
      terms[threadIdx.x] = i < n ? f(i) : 0;
      __syncthreads();
      const int64_t count = n - begin < threads ? n - begin : threads;
      for (int64_t k = 0; k < count; ++k) total += terms[k];
      __syncthreads();
    }
    return total;
  }
  static __device__ float read(const void* data, DType type, int64_t i) {
    if (type == DType::f32) return static_cast<const float*>(data)[i];
    const uint16_t bits = static_cast<const uint16_t*>(data)[i];
    return type == DType::f16 ? __half2float(__half(__half_raw{bits})) : core::to_float(core::bf16{bits});
  }
  static __device__ void write(void* data, DType type, int64_t i, float value) {
    if (type == DType::f32) {
      static_cast<float*>(data)[i] = value;
    } else {
      static_cast<uint16_t*>(data)[i] =
          type == DType::f16 ? static_cast<__half_raw>(__float2half_rn(value)).x : core::to_bf16(value).bits;
    }
  }
  // The host checks tokens before they come here; a program with a fault must not read beyond the table either.
  static __device__ int32_t id(int32_t id, int64_t vocab) { return id >= vocab ? 0 : id; }
};

__global__ void toy_kernel(ToyPass pass, ToyCall call) {
  run_toy<OnGpu>(pass, call);
}

}  // namespace

void launch_toy(ToyPass pass, const ToyCall& call) {
  core::cuda::launch(toy_kernel, 1, threads, 0, pass, call);
}

}  // namespace zrt::testing
