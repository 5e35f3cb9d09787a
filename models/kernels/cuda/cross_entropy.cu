// Loss and gradient of rows of logits: a block per row, which is read once into shared memory where that has room for
// it, and else read a second time for the gradient.
#include <cfloat>

#include "core/cuda/dynamic_shared.cuh"
#include "core/cuda/launch.cuh"
#include "models/kernels/backend.h"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/cuda/reduce.cuh"

namespace zrt::models::cuda {
namespace {

constexpr int row_threads = 512, unrolled = 4;

template <class T>
__device__ float exponential(float x) {
  return sizeof(T) == 4 ? expf(x) : __expf(x);
}

// A running maximum and the sum of e^(x - maximum).
template <class T>
struct Running {
  float max = -FLT_MAX, sum = 0;
  __device__ void add(const float (&x)[group]) {
    float largest = max;
#pragma unroll
    for (int i = 0; i < group; ++i) largest = fmaxf(largest, x[i]);
    if (largest > max) sum *= exponential<T>(max - largest), max = largest;
    float part = 0;
#pragma unroll
    for (int i = 0; i < group; ++i) part += exponential<T>(x[i] - max);
    sum += part;
  }
};

// A row: single elements up to the first 16-byte boundary, groups of eight, single elements again.
struct Parts {
  int64_t lead, groups, tail;
};
template <class T>
__device__ Parts parts_of(const T* row, int64_t V) {
  const int64_t to_boundary = (16 - (reinterpret_cast<uintptr_t>(row) & 15)) % 16 / sizeof(T);
  const int64_t lead = to_boundary < V ? to_boundary : V;
  return {lead, (V - lead) / group, (V - lead) % group};
}

struct Gradient {
  float max, inverse, scale;
  int64_t target;
};

// The gradient of element `at`, of which x is the logit.
template <class T>
__device__ float gradient_at(const Gradient& g, int64_t at, float x) {
  const float p = exponential<T>(x - g.max);
  return at == g.target ? (p * g.inverse - 1.0f) * g.scale : p * (g.inverse * g.scale);
}

template <class T, bool keep>
__global__ void __launch_bounds__(row_threads)
    cross_entropy_rows(T* logits, const int32_t* targets, int64_t V, int64_t stride, float scale, double* losses) {
  uint4* const kept = core::cuda::dynamic_shared<uint4>();
  __shared__ float shared_max[32];
  __shared__ double shared_sum[32];
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
  // Threads 0 … 15 have one of the single elements each.
  const int thread = threadIdx.x;
  int64_t single = -1;
  if (thread < parts.lead) single = thread;
  if (thread >= 8 && thread - 8 < parts.tail) single = parts.lead + parts.groups * group + thread - 8;
  const float single_x = single >= 0 ? widen(row[single]) : 0.0f;
  const float target_x = widen(row[target]);

  Running<T> running;
  const auto groups = static_cast<int>(parts.groups);
  Raw<T>* kept_row = reinterpret_cast<Raw<T>*>(kept);
  for (int first = thread; first < groups; first += row_threads * unrolled) {
    Raw<T> raw[unrolled];
#pragma unroll
    for (int u = 0; u < unrolled; ++u) {
      const int k = first + u * row_threads;
      if (k < groups) raw[u] = load_words(main + int64_t{group} * k);
    }
#pragma unroll
    for (int u = 0; u < unrolled; ++u) {
      const int k = first + u * row_threads;
      if (k >= groups) continue;
      float x[group];
      unpack<T>(raw[u], x);
      running.add(x);
      if constexpr (keep) kept_row[k] = raw[u];
    }
  }
  const float own = single >= 0 ? fmaxf(running.max, single_x) : running.max;
  const float max = block_max(own, shared_max);
  double sum = static_cast<double>(running.sum * exponential<T>(running.max - max));
  if (single >= 0) sum += static_cast<double>(exponential<T>(single_x - max));
  const double total = block_sum(sum, shared_sum);  // its barrier is behind every thread's reading of row[target]
  if (thread == 0) losses[r] = log(total) + static_cast<double>(max) - static_cast<double>(target_x);
  if (scale == 0) return;

  const Gradient g{max, static_cast<float>(1.0 / total), scale, target};
  if (single >= 0) row[single] = narrow<T>(gradient_at<T>(g, single, single_x));
#pragma unroll 2
  for (int k = thread; k < groups; k += row_threads) {
    float x[group];
    T* to = main + int64_t{group} * k;
    if constexpr (keep) {
      unpack<T>(kept_row[k], x);
    } else {
      unpack<T>(load_words(to), x);
    }
    const int64_t at = parts.lead + int64_t{group} * k;
    const float factor = g.inverse * g.scale;
    const bool hit = target >= at && target < at + group;
#pragma unroll
    for (int i = 0; i < group; ++i) {
      x[i] = hit ? gradient_at<T>(g, at + i, x[i]) : exponential<T>(x[i] - g.max) * factor;
    }
    save_words(to, x);
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
