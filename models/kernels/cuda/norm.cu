// Forward norms, also with the residual sum in front of them. A row's numbers stay in registers between its sums.
// Dropout of what is added is a pass of its own: random numbers here would be most of every kernel's code.
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/cuda/reduce.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

template <class T>
struct NormArgs {
  const T *x, *b;  // b: what is added to x, or null
  T* sum;
  const T *gamma, *beta;
  T* y;
  float *mean, *rstd, epsilon;
  NormRows rows;
  float base;  // added to gamma, of an RMS norm
};

// The inputs of a group of a row. All groups are loaded before any sum is written, which may be where they lie.
template <class T, bool residual>
struct Inputs {
  Raw<T> x, b;  // b only of a residual sum
};

template <bool residual, class T>
__device__ Inputs<T, residual> take(const NormArgs<T>& args, int64_t row, int64_t c) {
  Inputs<T, residual> in;
  in.x = load_raw(args.x + row + c, args.rows.C - c);
  if constexpr (residual) in.b = load_raw(args.b + row + c, args.rows.C - c);
  return in;
}

// The numbers of the group at column c of a row that begins at element `row`: x, or x + b, which is kept in sum.
template <bool residual, class T>
__device__ void combine(const NormArgs<T>& args, int64_t row, int64_t c, const Inputs<T, residual>& in,
                        float (&v)[group]) {
  unpack<T>(in.x, v);
  if constexpr (residual) {
    float b[group];
    unpack<T>(in.b, b);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] = widen(narrow<T>(v[i] + b[i]));  // as a norm would read it back
    save(args.sum + row + c, args.rows.C - c, v);
  }
}

// The sum over the threads of a row: a warp or the block.
template <int threads>
__device__ float row_sum(float x, float* shared) {
  if constexpr (threads == 32) return warp_sum(x);
  return block_sum(x, shared);
}

template <class T>
__device__ void put_statistics(const NormArgs<T>& args, int64_t row, float mean, float rstd, bool centred) {
  if (centred && args.mean != nullptr) args.mean[row] = mean;
  if (args.rstd != nullptr) args.rstd[row] = rstd;
}

template <bool centred, class T>
__device__ void put_row(const NormArgs<T>& args, int64_t row, int64_t c, float mean, float rstd, float (&v)[group]) {
  const int64_t left = args.rows.C - c;
  float g[group], b[group];
  load(args.gamma + c, left, g);
  if constexpr (centred) load(args.beta + c, left, b);
#pragma unroll
  for (int i = 0; i < group; ++i) {
    v[i] = centred ? (v[i] - mean) * rstd * g[i] + b[i] : v[i] * rstd * (args.base + g[i]);
  }
  save(args.y + row + c, left, v);
}

// `threads` threads per row, each with `groups` groups of it.
template <class T, bool centred, bool residual, int threads, int groups>
__global__ void __launch_bounds__(threads < 128 ? 128 : threads) norm_rows(NormArgs<T> args) {
  __shared__ float shared[2][32];
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (threads < 128 ? 128 / threads : 1) + threadIdx.x / threads;
  if (row >= args.rows.rows) return;  // whole warps, and whole blocks where these work together
  const int thread = threadIdx.x % threads;
  const int64_t begin = args.rows.at(row);
  Inputs<T, residual> in[groups];
  float v[groups][group], sum = 0;
#pragma unroll
  for (int k = 0; k < groups; ++k) {
    const int64_t c = int64_t{group} * (thread + k * threads);
    if (c < args.rows.C) in[k] = take<residual>(args, begin, c);
  }
#pragma unroll
  for (int k = 0; k < groups; ++k) {
    const int64_t c = int64_t{group} * (thread + k * threads);
    if (c < args.rows.C) combine(args, begin, c, in[k], v[k]);
  }
  float mean = 0;
  if constexpr (centred) {
#pragma unroll
    for (int k = 0; k < groups; ++k) {
      if (group * (thread + k * threads) >= args.rows.C) continue;
#pragma unroll
      for (int i = 0; i < group; ++i) sum += v[k][i];  // zero behind the end of the row
    }
    mean = row_sum<threads>(sum, shared[0]) / static_cast<float>(args.rows.C);
  }
  float squares = 0;
#pragma unroll
  for (int k = 0; k < groups; ++k) {
    const int64_t left = args.rows.C - int64_t{group} * (thread + k * threads);
    if (left <= 0) continue;
    if (left < group) {  // what lies behind the end of the row adds nothing
#pragma unroll
      for (int i = 1; i < group; ++i) v[k][i] = i < left ? v[k][i] : mean;
    }
#pragma unroll
    for (int i = 0; i < group; ++i) squares += (v[k][i] - mean) * (v[k][i] - mean);
  }
  const float rstd =
      1.0f / sqrtf(row_sum<threads>(squares, shared[1]) / static_cast<float>(args.rows.C) + args.epsilon);
#pragma unroll
  for (int k = 0; k < groups; ++k) {
    const int64_t c = int64_t{group} * (thread + k * threads);
    if (c < args.rows.C) put_row<centred>(args, begin, c, mean, rstd, v[k]);
  }
  if (thread == 0) put_statistics(args, row, mean, rstd, centred);
}

// Rows that no block can hold in its registers are read again for every sum.
template <class T, bool centred, bool residual>
__global__ void __launch_bounds__(256) norm_long_rows(NormArgs<T> args) {
  __shared__ float shared[2][32];
  const int64_t row = blockIdx.x, begin = args.rows.at(row), step = int64_t{group} * 256;
  const int64_t first = int64_t{group} * threadIdx.x;
  const T* x = residual ? args.sum : args.x;
  float sum = 0, squares = 0, mean = 0, v[group];
  for (int64_t c = first; c < args.rows.C; c += step) {
    combine(args, begin, c, take<residual>(args, begin, c), v);
#pragma unroll
    for (int i = 0; i < group; ++i) sum += v[i];
  }
  if constexpr (centred) mean = block_sum(sum, shared[0]) / static_cast<float>(args.rows.C);
  for (int64_t c = first; c < args.rows.C; c += step) {  // every thread reads what it wrote itself
    load(x + begin + c, args.rows.C - c, v);
#pragma unroll
    for (int i = 0; i < group; ++i) {
      if (c + i < args.rows.C) squares += (v[i] - mean) * (v[i] - mean);
    }
  }
  const float rstd = 1.0f / sqrtf(block_sum(squares, shared[1]) / static_cast<float>(args.rows.C) + args.epsilon);
  for (int64_t c = first; c < args.rows.C; c += step) {
    load(x + begin + c, args.rows.C - c, v);
    put_row<centred>(args, begin, c, mean, rstd, v);
  }
  if (threadIdx.x == 0) put_statistics(args, row, mean, rstd, centred);
}

template <class T, bool centred, bool residual>
void launch(const NormArgs<T>& args) {
  const int64_t groups = (args.rows.C + group - 1) / group;
  const auto rows = static_cast<unsigned>(args.rows.rows), warps = blocks_for(args.rows.rows, 4);
  if (groups <= 96) {
    core::cuda::launch(norm_rows<T, centred, residual, 32, 3>, warps, 128, 0, args);
  } else if (groups <= 256) {
    // A warp has registers for rows of two bytes per element, and needs no barriers.
    if constexpr (sizeof(T) == 2) {
      core::cuda::launch(norm_rows<T, centred, residual, 32, 8>, warps, 128, 0, args);
    } else {
      core::cuda::launch(norm_rows<T, centred, residual, 128, 2>, rows, 128, 0, args);
    }
  } else if (groups <= 512) {
    core::cuda::launch(norm_rows<T, centred, residual, 256, 2>, rows, 256, 0, args);
  } else if (groups <= 1024) {
    core::cuda::launch(norm_rows<T, centred, residual, 256, 4>, rows, 256, 0, args);
  } else {
    core::cuda::launch(norm_long_rows<T, centred, residual>, rows, 256, 0, args);
  }
}

}  // namespace

void norm(NormKind kind, DType type, const void* x, const void* gamma, const void* beta, void* y, float* mean,
          float* rstd, float epsilon, const NormRows& rows) {
  if (rows.rows == 0) return;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const NormArgs<T> args{static_cast<const T*>(x),
                           nullptr,
                           nullptr,
                           static_cast<const T*>(gamma),
                           static_cast<const T*>(beta),
                           static_cast<T*>(y),
                           mean,
                           rstd,
                           epsilon,
                           rows,
                           gamma_base(kind)};
    with_flag(kind == NormKind::layer, [&](auto centred) { launch<T, centred(), false>(args); });
  });
}

void residual_norm(NormKind kind, DType type, const void* a, const void* b, const Dropout& dropout, uint64_t first,
                   void* sum, const void* gamma, const void* beta, void* y, float* mean, float* rstd, float epsilon,
                   int64_t rows, int64_t C) {
  if (rows == 0) return;
  if (dropout.probability != 0) {
    cuda::add_residual(type, a, b, dropout, first, sum, rows * C);
    return cuda::norm(kind, type, sum, gamma, beta, y, mean, rstd, epsilon, {rows, C});
  }
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const NormArgs<T> args{static_cast<const T*>(a),
                           static_cast<const T*>(b),
                           static_cast<T*>(sum),
                           static_cast<const T*>(gamma),
                           static_cast<const T*>(beta),
                           static_cast<T*>(y),
                           mean,
                           rstd,
                           epsilon,
                           {rows, C},
                           gamma_base(kind)};
    with_flag(kind == NormKind::layer, [&](auto centred) { launch<T, centred(), true>(args); });
  });
}

}  // namespace zrt::models::cuda
