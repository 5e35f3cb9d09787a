// The kernels of losses share these: reading a row of logits with a block, and the gradient of its elements.
#pragma once
#include <cfloat>

#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/cuda/mma.cuh"
#include "models/kernels/cuda/reduce.cuh"

namespace zrt::models::cuda {

inline constexpr int row_threads = 512;  // of a block, which has a row

// Returns e^x for x up to 0. Below 2^-126 the fast one is 0, which takes fewer instructions than a subnormal number.
template <class T>
__device__ float exponential(float x) {
  return sizeof(T) == 4 ? expf(x) : exp2_fast(x * 1.4426950408889634f);
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

// A row: single elements up to the first 16-byte boundary, groups of eight, single elements again. Threads 0 … 15 have
// one of the single elements each.
struct Parts {
  int64_t lead, groups, tail;
  __device__ int64_t single(int thread) const {  // or -1
    if (thread < lead) return thread;
    if (thread >= 8 && thread - 8 < tail) return lead + groups * group + thread - 8;
    return -1;
  }
};
template <class T>
__device__ Parts parts_of(const T* row, int64_t V) {
  const int64_t to_boundary = (16 - (reinterpret_cast<uintptr_t>(row) & 15)) % 16 / sizeof(T);
  const int64_t lead = to_boundary < V ? to_boundary : V;
  return {lead, (V - lead) / group, (V - lead) % group};
}

// Groups of a row that a thread reads before it looks at the first of them.
template <class T>
inline constexpr int groups_at_once = sizeof(T) == 4 ? 2 : 4;

// Returns what a thread finds in its groups of a row, which begin at `main`.
template <class T>
__device__ Running<T> read_groups(const T* main, int groups) {
  Running<T> running;
  for (int first = threadIdx.x; first < groups; first += row_threads * groups_at_once<T>) {
    Raw<T> raw[groups_at_once<T>];
#pragma unroll
    for (int u = 0; u < groups_at_once<T>; ++u) {
      const int k = first + u * row_threads;
      if (k < groups) raw[u] = load_words(main + group * k);
    }
#pragma unroll
    for (int u = 0; u < groups_at_once<T>; ++u) {
      if (first + u * row_threads >= groups) continue;
      float x[group];
      unpack<T>(raw[u], x);
      running.add(x);
    }
  }
  return running;
}

// The largest logit of a block's row and the sum of e^(logit - max). Every thread gets them from row_sum(), whose
// barriers are behind every thread's reading of the row.
struct RowSum {
  float max;
  double sum;
};
template <class T>
__device__ RowSum row_sum(const Running<T>& running, bool has_single, float single_x) {
  __shared__ float shared_max[32];
  __shared__ double shared_sum[32];
  const float own = has_single ? fmaxf(running.max, single_x) : running.max;
  const float max = block_max(own, shared_max);
  double sum = static_cast<double>(running.sum * exponential<T>(running.max - max));
  if (has_single) sum += static_cast<double>(exponential<T>(single_x - max));
  return {max, block_sum(sum, shared_sum)};
}

struct Gradient {
  float max, inverse, scale;
  int64_t target;         // negative where another rank has it
  float target_x;         // its logit
  float inverse_cap = 0;  // of a soft cap that made the logits; 0: there is none
  // Returns the slope of the cap where it has made x.
  __device__ float slope(float x) const {
    const float t = x * inverse_cap;
    return 1.0f - t * t;
  }
};

// The gradient of element `at`, of which x is the logit.
template <class T>
__device__ float gradient_at(const Gradient& g, int64_t at, float x) {
  const float p = exponential<T>(x - g.max);
  return (at == g.target ? (p * g.inverse - 1.0f) * g.scale : p * (g.inverse * g.scale)) * g.slope(x);
}

// Makes group k of the row's groups, of which x are the logits, the gradient that elements other than the target have.
template <class T>
__device__ void save_gradient(const Gradient& g, T* main, int k, float (&x)[group]) {
  const float factor = g.inverse * g.scale;
#pragma unroll
  for (int i = 0; i < group; ++i) x[i] = exponential<T>(x[i] - g.max) * factor * g.slope(x[i]);
  save_words(main + group * k, x);
}

// Mends the target's element behind all groups, in the thread that wrote its group: it has every row_threads-th of
// them.
template <class T>
__device__ void save_target(const Gradient& g, const Parts& parts, T* main) {
  const int64_t at = g.target - parts.lead;
  if (at < 0 || at >= parts.groups * group || at / group % row_threads != threadIdx.x) return;
  main[at] = narrow<T>(gradient_at<T>(g, g.target, g.target_x));
}

}  // namespace zrt::models::cuda
