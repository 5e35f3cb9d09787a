#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/gradient.cuh"
#include "models/kernels/cuda/partial_sums.h"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

constexpr int columns = 32, slices = 32;  // of a block: a warp per slice, which takes every 32nd part

__global__ void __launch_bounds__(columns* slices)
    add(const float* partials, int64_t parts, int64_t stride, int64_t n, GradTarget target) {
  __shared__ double sums[slices][columns];
  const int64_t c = static_cast<int64_t>(blockIdx.x) * columns + threadIdx.x;
  double sum = 0;
  if (c < n) {
#pragma unroll 4
    for (int64_t part = threadIdx.y; part < parts; part += slices) sum += partials[part * stride + c];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= n) return;
  for (int slice = 1; slice < slices; ++slice) sum += sums[slice][threadIdx.x];
  write_gradient(target, c, static_cast<float>(sum));
}

}  // namespace

void add_partials(const float* partials, int64_t parts, int64_t stride, int64_t n, const GradTarget& target) {
  if (target.data == nullptr) return;
  core::cuda::launch(add, blocks_for(n, columns), dim3(columns, slices), 0, partials, parts, stride, n, target);
}

void write_gradient(const float* sums, int64_t n, GradTarget grad) {
  add_partials(sums, 1, n, n, grad);
}

}  // namespace zrt::models::cuda
