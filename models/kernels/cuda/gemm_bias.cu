#include "core/cuda/launch.cuh"
#include "core/kernel_convert.h"
#include "models/kernels/cuda/gemm.h"

namespace zrt::models::cuda {
namespace {

using core::bf16;
using core::f16;

template <class T, class B>
__global__ void add_bias_kernel(T* c, int64_t M, int64_t N, int64_t ldc, const B* bias) {
  const int64_t column = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (column >= N) return;
  const float added = core::widen(bias[column]);
  for (int64_t row = blockIdx.y; row < M; row += gridDim.y) {
    T* at = c + row * ldc + column;
    core::narrow(core::widen(*at) + added, *at);
  }
}

template <class T, class B>
void launch(void* c, int64_t M, int64_t N, int64_t ldc, const void* bias) {
  constexpr unsigned threads = 256;
  const dim3 grid(static_cast<unsigned>((N + threads - 1) / threads), static_cast<unsigned>(M < 1024 ? M : 1024));
  core::cuda::launch(add_bias_kernel<T, B>, grid, threads, 0, static_cast<T*>(c), M, N, ldc,
                     static_cast<const B*>(bias));
}

}  // namespace

// The result is of the operands' type, which is the bias's, or fp32.
void add_bias(DType type, void* c, int64_t M, int64_t N, int64_t ldc, DType bias_type, const void* bias) {
  if (type == DType::bf16) return launch<bf16, bf16>(c, M, N, ldc, bias);
  if (type == DType::f16) return launch<f16, f16>(c, M, N, ldc, bias);
  if (bias_type == DType::bf16) return launch<float, bf16>(c, M, N, ldc, bias);
  if (bias_type == DType::f16) return launch<float, f16>(c, M, N, ldc, bias);
  launch<float, float>(c, M, N, ldc, bias);
}

}  // namespace zrt::models::cuda
