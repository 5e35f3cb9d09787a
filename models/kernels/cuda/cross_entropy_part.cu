// Loss and gradient of rows of logits whose vocabulary is cut among ranks: a block per row.
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/logits.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

// The target's place among the V tokens from `first_token` on, or -1 where it is elsewhere.
__device__ int64_t own_target(int64_t target, int64_t first_token, int64_t V) {
  const int64_t v = target - first_token;
  return v >= 0 && v < V ? v : -1;
}

template <class T>
__global__ void __launch_bounds__(row_threads) find_parts(const T* logits, const int32_t* targets, int64_t first_token,
                                                          int64_t V, int64_t stride, LogitPart* found) {
  const int64_t r = blockIdx.x;
  const T* row = logits + r * stride;
  if (targets[r] < 0) {
    if (threadIdx.x == 0) found[r] = {-FLT_MAX, 0, 0};
    return;
  }
  const Parts parts = parts_of(row, V);
  const int64_t single = parts.single(threadIdx.x), target = own_target(targets[r], first_token, V);
  const float single_x = single >= 0 ? widen(row[single]) : 0.0f;
  const auto running = read_groups(row + parts.lead, static_cast<int>(parts.groups));
  const auto [max, sum] = row_sum(running, single >= 0, single_x);
  if (threadIdx.x == 0) found[r] = {max, target >= 0 ? widen(row[target]) : 0.0f, sum};
}

// Returns what is known of a whole row from the parts of all ranks. The factor of the largest part is 1.
__device__ LogitPart join_parts(const LogitPart* parts, int64_t ranks, int64_t stride) {
  LogitPart whole = parts[0];
  for (int64_t i = 1; i < ranks; ++i) {
    whole.max = fmaxf(whole.max, parts[i * stride].max);
    whole.target += parts[i * stride].target;
  }
  whole.sum = 0;
  for (int64_t i = 0; i < ranks; ++i) {
    whole.sum += parts[i * stride].sum * static_cast<double>(expf(parts[i * stride].max - whole.max));
  }
  return whole;
}

struct Row {
  int64_t first_token, V, columns, stride;
};

template <class T>
__global__ void __launch_bounds__(row_threads)
    cross_entropy_of_parts(T* logits, const int32_t* targets, Row size, const LogitPart* found, int64_t ranks,
                           float scale, float inverse_cap, double* losses) {
  const int64_t r = blockIdx.x, V = size.V;
  const int thread = threadIdx.x;
  const bool counts = targets[r] >= 0;
  T* row = logits + r * size.stride;
  if (scale != 0) {
    for (int64_t i = (counts ? V : 0) + thread; i < size.columns; i += row_threads) row[i] = T{};
  }
  if (!counts) {
    if (thread == 0) losses[r] = 0;
    return;
  }
  const LogitPart whole = join_parts(found + r, ranks, gridDim.x);
  if (thread == 0) {
    losses[r] = log(whole.sum) + static_cast<double>(whole.max) - static_cast<double>(whole.target);
  }
  if (scale == 0) return;

  const Gradient g{whole.max,    static_cast<float>(1.0 / whole.sum),
                   scale,        own_target(targets[r], size.first_token, V),
                   whole.target, inverse_cap};
  const Parts parts = parts_of(row, V);
  const int64_t single = parts.single(thread);
  if (single >= 0) row[single] = narrow<T>(gradient_at<T>(g, single, widen(row[single])));
  T* main = row + parts.lead;
#pragma unroll 2
  for (int k = thread; k < static_cast<int>(parts.groups); k += row_threads) {
    float x[group];
    unpack<T>(load_words(main + int64_t{group} * k), x);
    save_gradient(g, main, k, x);
  }
  save_target(g, parts, main);
}

}  // namespace

void logit_parts(DType type, const void* logits, const int32_t* targets, int64_t first_token, int64_t rows, int64_t V,
                 int64_t stride, LogitPart* parts) {
  if (rows == 0) return;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::cuda::launch(find_parts<T>, static_cast<unsigned>(rows), row_threads, 0, static_cast<const T*>(logits),
                       targets, first_token, V, stride, parts);
  });
}

void cross_entropy_part(DType type, void* logits, const int32_t* targets, int64_t first_token, int64_t rows, int64_t V,
                        int64_t columns, int64_t stride, const LogitPart* parts, int64_t ranks, float cap,
                        float gradient_scale, double* losses) {
  if (rows == 0) return;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::cuda::launch(cross_entropy_of_parts<T>, static_cast<unsigned>(rows), row_threads, 0, static_cast<T*>(logits),
                       targets, Row{first_token, V, columns, stride}, parts, ranks, gradient_scale,
                       cap == 0 ? 0 : 1 / cap, losses);
  });
}

}  // namespace zrt::models::cuda
