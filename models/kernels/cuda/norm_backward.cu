// Gradients of norms. x and dy are read once: the kernel that makes dx also sums what gamma and beta get, per part of
// the rows. A thread has the same eight columns of every row of its part.
#include <algorithm>

#include "core/cuda/launch.cuh"
#include "models/kernels/backend.h"
#include "models/kernels/cuda/column_sums.cuh"
#include "models/kernels/cuda/partial_sums.h"
#include "models/kernels/cuda/reduce.cuh"

namespace zrt::models::cuda {
namespace {

constexpr int64_t longest_row = 1024 * group;

// Threads of a block, for whole warps a group of columns each.
int64_t threads_for(int64_t C) {
  return (C + 32 * group - 1) / (32 * group) * 32;
}

// Parts of the rows: what a GPU of 132 multiprocessors runs at once, whatever the GPU at hand.
int64_t parts_for(int64_t rows, int64_t C) {
  if (C > longest_row) return row_parts(rows, C);
  return std::clamp<int64_t>(132 * std::clamp<int64_t>(1024 / threads_for(C), 1, 8), 1, std::max<int64_t>(1, rows));
}

template <class T>
struct Args {
  const T *x, *gamma, *dy;
  const float *mean, *rstd;
  const T* add;
  T* dx;
  NormRows rows;
  float* partials;  // (parts, 1 or 2, C): gamma's, then beta's
};

// Both sums, over the block. `shared` alternates between two halves, so that one barrier is enough.
__device__ float2 block_sums(float a, float b, float2* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  a = warp_sum(a), b = warp_sum(b);
  if (lane == 0) shared[warp] = {a, b};
  __syncthreads();
  const float2 mine = lane < warps ? shared[lane] : float2{0, 0};
  return {warp_sum(mine.x), warp_sum(mine.y)};
}

template <class T, bool centred, int most_threads, int least_blocks>
__global__ void __launch_bounds__(most_threads, least_blocks) norm_gradients(Args<T> args) {
  __shared__ float2 shared[2][32];
  const int64_t C = args.rows.C, c = int64_t{group} * threadIdx.x, left = C - c, parts = gridDim.x;
  const bool active = left > 0;
  float dgamma[group] = {}, dbeta[group] = {};
  Raw<T> gamma{}, x{}, dy{};
  if (active) gamma = load_raw(args.gamma + c, left);
  int64_t row = blockIdx.x;
  if (active && row < args.rows.rows) {
    x = load_raw(args.x + args.rows.at(row) + c, left), dy = load_raw(args.dy + args.rows.at(row) + c, left);
  }
  for (int turn = 0; row < args.rows.rows; row += parts, turn ^= 1) {
    float xhat[group], d[group], g[group];
    unpack<T>(x, xhat), unpack<T>(dy, d), unpack<T>(gamma, g);
    // The next row's numbers are on their way while this row's sums are made; only dx of this row is written meanwhile.
    const int64_t next = row + parts;
    if (active && next < args.rows.rows) {
      x = load_raw(args.x + args.rows.at(next) + c, left), dy = load_raw(args.dy + args.rows.at(next) + c, left);
    }
    Raw<T> plus{};
    if (active && args.add != nullptr) plus = load_raw(args.add + args.rows.at(row) + c, left);
    const float m = centred ? args.mean[row] : 0.0f, r = args.rstd[row];
    float sum = 0, dot = 0;
#pragma unroll
    for (int i = 0; i < group; ++i) {  // behind the end of the row d is 0, and xhat counts only times d
      xhat[i] = (xhat[i] - m) * r;
      dgamma[i] += d[i] * xhat[i];
      if constexpr (centred) dbeta[i] += d[i];
      d[i] *= g[i];
      if constexpr (centred) sum += d[i];
      dot += d[i] * xhat[i];
    }
    const float2 sums = block_sums(sum, dot, shared[turn]);
    if (!active) continue;
    const float a = sums.x / static_cast<float>(C), b = sums.y / static_cast<float>(C);
    unpack<T>(plus, g);
#pragma unroll
    for (int i = 0; i < group; ++i) d[i] = g[i] + r * (d[i] - a - xhat[i] * b);
    save(args.dx + args.rows.at(row) + c, left, d);
  }
  float* partials = args.partials + blockIdx.x * (centred ? 2 : 1) * C + c;
#pragma unroll
  for (int i = 0; i < group; ++i) {
    if (i >= left) break;
    partials[i] = dgamma[i];
    if constexpr (centred) partials[C + i] = dbeta[i];
  }
}

// For rows longer than a block has registers for: the sums of the columns, and then dx, which may overwrite dy.
template <class T, bool centred>
struct WeightTerms {
  static constexpr int sums = centred ? 2 : 1;
  Args<T> args;
  __device__ void add(int64_t row, int64_t c, int64_t left, float (&total)[sums][group]) const {
    float x[group], d[group];
    load(args.x + args.rows.at(row) + c, left, x), load(args.dy + args.rows.at(row) + c, left, d);
    const float m = centred ? args.mean[row] : 0.0f, r = args.rstd[row];
#pragma unroll
    for (int i = 0; i < group; ++i) {
      total[0][i] += d[i] * ((x[i] - m) * r);
      if constexpr (centred) total[sums - 1][i] += d[i];
    }
  }
};

template <class T, bool centred>
__global__ void __launch_bounds__(256) long_row_dx(Args<T> args) {
  __shared__ float2 shared[32];
  const int64_t row = blockIdx.x, C = args.rows.C, begin = args.rows.at(row);
  const float m = centred ? args.mean[row] : 0.0f, r = args.rstd[row];
  float sum = 0, dot = 0, x[group], d[group], g[group];
  for (int64_t c = int64_t{group} * threadIdx.x; c < C; c += 256 * group) {
    load(args.x + begin + c, C - c, x), load(args.dy + begin + c, C - c, d);
    load(args.gamma + c, C - c, g);
#pragma unroll
    for (int i = 0; i < group; ++i) {
      if constexpr (centred) sum += d[i] * g[i];
      dot += d[i] * g[i] * ((x[i] - m) * r);
    }
  }
  const float2 sums = block_sums(sum, dot, shared);
  const float a = sums.x / static_cast<float>(C), b = sums.y / static_cast<float>(C);
  for (int64_t c = int64_t{group} * threadIdx.x; c < C; c += 256 * group) {
    float plus[group] = {};
    load(args.x + begin + c, C - c, x), load(args.dy + begin + c, C - c, d);
    load(args.gamma + c, C - c, g);
    if (args.add != nullptr) load(args.add + begin + c, C - c, plus);
#pragma unroll
    for (int i = 0; i < group; ++i) d[i] = plus[i] + r * (d[i] * g[i] - a - (x[i] - m) * r * b);
    save(args.dx + begin + c, C - c, d);
  }
}

template <class T, bool centred>
void launch(const Args<T>& args) {
  if (args.rows.C > longest_row) {
    run_column_sums(WeightTerms<T, centred>{args}, args.rows.rows, args.rows.C, args.partials);
    core::cuda::launch(long_row_dx<T, centred>, static_cast<unsigned>(args.rows.rows), 256, 0, args);
  } else {
    const auto parts = static_cast<unsigned>(parts_for(args.rows.rows, args.rows.C));
    const auto threads = static_cast<unsigned>(threads_for(args.rows.C));
    if (threads <= 128) {
      core::cuda::launch(norm_gradients<T, centred, 128, 7>, parts, threads, 0, args);
    } else if (threads <= 448) {
      core::cuda::launch(norm_gradients<T, centred, 448, 2>, parts, threads, 0, args);
    } else {
      core::cuda::launch(norm_gradients<T, centred, 1024, 1>, parts, threads, 0, args);
    }
  }
}

}  // namespace

uint64_t norm_backward_workspace(NormKind kind, int64_t rows, int64_t C) {
  return static_cast<uint64_t>(parts_for(rows, C) * C) * sizeof(float) * (kind == NormKind::layer ? 2 : 1);
}

void norm_backward(NormKind kind, DType type, const void* x, const void* gamma, const void* dy, const float* mean,
                   const float* rstd, const void* add, void* dx, GradTarget dgamma, GradTarget dbeta,
                   const NormRows& rows, void* workspace) {
  auto* partials = static_cast<float*>(workspace);
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const Args<T> args{static_cast<const T*>(x),
                       static_cast<const T*>(gamma),
                       static_cast<const T*>(dy),
                       mean,
                       rstd,
                       static_cast<const T*>(add),
                       static_cast<T*>(dx),
                       rows,
                       partials};
    with_flag(kind == NormKind::layer, [&](auto centred) { launch<T, centred()>(args); });
  });
  const int64_t C = rows.C, parts = parts_for(rows.rows, C), stride = kind == NormKind::layer ? 2 * C : C;
  add_partials(partials, parts, stride, C, dgamma);
  if (kind == NormKind::layer) add_partials(partials + C, parts, stride, C, dbeta);
}

}  // namespace zrt::models::cuda
