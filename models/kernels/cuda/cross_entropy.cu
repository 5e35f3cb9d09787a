// Loss and gradient of rows of logits: a block per row, which is read once into shared memory where that has room for
// it, and else read a second time for the gradient.
#include "core/cuda/dynamic_shared.cuh"
#include "core/cuda/launch.cuh"
#include "models/kernels/backend.h"
#include "models/kernels/cuda/logits.cuh"

namespace zrt::models::cuda {
namespace {

template <class T, bool keep>
__global__ void __launch_bounds__(row_threads)
    cross_entropy_rows(T* logits, const int32_t* targets, int64_t V, int64_t stride, float scale, double* losses) {
  uint4* const kept = core::cuda::dynamic_shared<uint4>();
  const int64_t r = blockIdx.x, target = targets[r];
  T* row = logits + r * stride;
  if (target < 0) {
    if (threadIdx.x == 0) losses[r] = 0;
    if (scale != 0) {
      for (int64_t i = threadIdx.x; i < V; i += row_threads) row[i] = T{};
    }
    return;
  }
  const Parts parts = parts_of(row, V);
  T* main = row + parts.lead;
  const int thread = threadIdx.x;
  const int64_t single = parts.single(thread);
  const float single_x = single >= 0 ? widen(row[single]) : 0.0f;
  const float target_x = widen(row[target]);

  const auto groups = static_cast<int>(parts.groups);
  Raw<T>* kept_row = reinterpret_cast<Raw<T>*>(kept);
  const auto [max, total] = row_sum(read_groups<T, keep>(main, groups, kept_row), single >= 0, single_x);
  if (thread == 0) losses[r] = log(total) + static_cast<double>(max) - static_cast<double>(target_x);
  if (scale == 0) return;

  const Gradient g{max, static_cast<float>(1.0 / total), scale, target};
  if (single >= 0) row[single] = narrow<T>(gradient_at<T>(g, single, single_x));
#pragma unroll 2
  for (int k = thread; k < groups; k += row_threads) {
    float x[group];
    if constexpr (keep) {
      unpack<T>(kept_row[k], x);
    } else {
      unpack<T>(load_words(main + int64_t{group} * k), x);
    }
    save_gradient(g, parts, main, k, x);
  }
}

// The most shared memory a block can have on the device at hand, less what the kernel itself declares.
int64_t room() {
  static const int64_t bytes = [] {
    int device = 0, most = 0;
    ZRT_CUDA(cudaGetDevice(&device));
    ZRT_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    return int64_t{most} - 1024;
  }();
  return bytes;
}

template <class T>
void launch(T* logits, const int32_t* targets, int64_t rows, int64_t V, int64_t stride, float scale, double* losses) {
  const auto blocks = static_cast<unsigned>(rows);
  const int64_t bytes = V / group * static_cast<int64_t>(sizeof(Raw<T>));
  if (scale != 0 && bytes <= room()) {
    // Once per type and process, at its most: launches take what they need.
    static const bool raised = [] {
      ZRT_CUDA(cudaFuncSetAttribute(cross_entropy_rows<T, true>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(room())));
      return true;
    }();
    static_cast<void>(raised);
    core::cuda::launch(cross_entropy_rows<T, true>, blocks, row_threads, static_cast<size_t>(bytes), logits, targets, V,
                       stride, scale, losses);
  } else {
    core::cuda::launch(cross_entropy_rows<T, false>, blocks, row_threads, 0, logits, targets, V, stride, scale, losses);
  }
}

// One block; the order depends on the number of rows alone.
constexpr int sum_threads = 1024;
__global__ void __launch_bounds__(sum_threads) sum_all(const double* losses, int64_t rows, double* sum) {
  __shared__ double parts[sum_threads];
  double part = 0;
  for (int64_t row = threadIdx.x; row < rows; row += sum_threads) part += losses[row];
  parts[threadIdx.x] = part;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  part = 0;
  for (int i = threadIdx.x; i < sum_threads; i += 32) part += parts[i];
  part = warp_sum(part);
  if (threadIdx.x == 0) *sum = part;
}

}  // namespace

void cross_entropy(DType type, void* logits, const int32_t* targets, int64_t rows, int64_t V, int64_t stride,
                   float gradient_scale, double* losses) {
  if (rows == 0) return;
  with_type(type, [&](auto zero) {
    launch(static_cast<decltype(zero)*>(logits), targets, rows, V, stride, gradient_scale, losses);
  });
}

void sum_losses(const double* losses, int64_t rows, double* sum) {
  core::cuda::launch(sum_all, 1, sum_threads, 0, losses, rows, sum);
}

}  // namespace zrt::models::cuda
