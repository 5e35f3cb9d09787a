// Square matrices between products: each kernel is one pass over memory.
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/matrix.h"

namespace zrt::models::cuda {
namespace {

constexpr int threads = 256;

// Adds in order, so that the bits are the host's.
__global__ void trace_kernel(const float* x, int64_t n, float least, float* scale) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i * n + i]);
  const float root = static_cast<float>(sqrt(sum));
  *scale = 1 / (root > least ? root : least);
}

__global__ void __launch_bounds__(threads)
    scale_kernel(const float* x, const float* scale, int power, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= n) return;
  const float factor = power == 2 ? *scale * *scale : *scale;
  y[i] = factor * x[i];
}

__global__ void __launch_bounds__(threads) shift_kernel(const float* x, float scale, float shift, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i >= n * n) return;
  const float scaled = scale * x[i];
  y[i] = i / n == i % n ? scaled + shift : scaled;
}

}  // namespace

void inverse_root_of_trace(const float* x, int64_t n, float least, float* scale) {
  core::cuda::launch(trace_kernel, 1, 1, 0, x, n, least, scale);
}

void scale_by(const float* x, const float* scale, int power, float* y, int64_t n) {
  core::cuda::launch(scale_kernel, blocks_for(n, threads), threads, 0, x, scale, power, y, n);
}

void scale_and_shift(const float* x, float scale, float shift, float* y, int64_t n) {
  core::cuda::launch(shift_kernel, blocks_for(n * n, threads), threads, 0, x, scale, shift, y, n);
}

}  // namespace zrt::models::cuda
