#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/gradient.cuh"
#include "models/kernels/cuda/partial_sums.h"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

constexpr int columns = 32, slices = 32;  // of a block: a warp per slice, which takes every 32nd part

__global__ void __launch_bounds__(columns* slices)
    add(const float* partials, int64_t parts, int64_t stride, int64_t n, GradTarget first, GradTarget second) {
  const GradTarget& target = blockIdx.y == 0 ? first : second;
  if (target.data == nullptr) return;  // of all threads of the block alike
  partials += blockIdx.y * n;
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

constexpr int written_by_block = 256;

__global__ void __launch_bounds__(written_by_block) write(const float* sums, int64_t n, GradTarget target) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * written_by_block + threadIdx.x;
  if (i < n) write_gradient(target, i, sums[i]);
}

}  // namespace

void add_partials(const float* partials, int64_t parts, int64_t stride, int64_t n, const GradTarget& target,
                  const GradTarget& second) {
  if (target.data == nullptr && second.data == nullptr) return;
  const dim3 blocks(blocks_for(n, columns), second.data == nullptr ? 1 : 2);
  core::cuda::launch(add, blocks, dim3(columns, slices), 0, partials, parts, stride, n, target, second);
}

void write_gradient(const float* sums, int64_t n, GradTarget grad) {
  if (grad.data == nullptr) return;
  core::cuda::launch(write, blocks_for(n, written_by_block), written_by_block, 0, sums, n, grad);
}

}  // namespace zrt::models::cuda
