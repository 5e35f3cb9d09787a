// Gradients of norms. x and dy are read once: the kernel that makes dx also sums what gamma and beta get, per part of
// the rows. A thread has the same eight columns of every row of its part.
#include <algorithm>

#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/column_sums.cuh"
#include "models/kernels/cuda/partial_sums.h"
#include "models/kernels/cuda/reduce.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

constexpr int64_t longest_row = 1024 * group;

// Threads of a block, for whole warps a group of columns each.
int64_t threads_for(int64_t C) {
  return (C + 32 * group - 1) / (32 * group) * 32;
}

// Parts of the rows: what a GPU of 132 multiprocessors runs at once, whatever the GPU at hand. Threads have 72
// registers, those of larger blocks 64.
int64_t parts_for(int64_t rows, int64_t C) {
  if (C > longest_row) return row_parts(rows, C);
  const int64_t threads = threads_for(C), at_once = (threads <= 448 ? 896 : 1024) / threads;
  return std::clamp<int64_t>(132 * std::clamp<int64_t>(at_once, 1, 16), 1, std::max<int64_t>(1, rows));
}

template <class T>
struct Args {
  const T *x, *gamma, *dy;
  const float *mean, *rstd;
  const T* add;
  T* dx;
  NormRows rows;
  float* partials;  // (parts, 1 or 2, C): gamma's, then beta's
  float base;       // added to gamma, of an RMS norm
};

// Returns both sums, over the block of at most `most` warps, a power of two. `shared` alternates between two halves, so
// that one barrier is enough.
template <int most>
__device__ float2 block_sums(float a, float b, float2* shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  a = warp_sum(a), b = warp_sum(b);
  if (lane == 0) shared[warp] = {a, b};
  __syncthreads();
  float2 sums = lane % most < warps ? shared[lane % most] : float2{0, 0};
#pragma unroll
  for (int step = most / 2; step > 0; step /= 2) {
    sums.x += __shfl_xor_sync(all_lanes, sums.x, step), sums.y += __shfl_xor_sync(all_lanes, sums.y, step);
  }
  return sums;
}

// The inputs that a thread has of a row.
template <class T>
struct RowInputs {
  Raw<T> x, dy, add;
  float mean, rstd;
};
template <bool centred, class T>
__device__ void take(const Args<T>& args, int64_t row, int64_t c, RowInputs<T>& in) {
  const int64_t left = args.rows.C - c;
  if (left > 0) {
    const int64_t at = args.rows.at(row) + c;
    in.x = load_raw(args.x + at, left), in.dy = load_raw(args.dy + at, left);
    if (args.add != nullptr) in.add = load_raw(args.add + at, left);
  }
  in.mean = centred ? args.mean[row] : 0.0f, in.rstd = args.rstd[row];
}

template <class T, bool centred, int most_threads, int least_blocks>
__global__ void __launch_bounds__(most_threads, least_blocks) norm_gradients(Args<T> args) {
  __shared__ float2 shared[2][32];
  const int64_t C = args.rows.C, c = int64_t{group} * threadIdx.x, left = C - c;
  const bool active = left > 0;
  float dgamma[group] = {}, dbeta[group] = {};
  Raw<T> gamma{};
  if (active) gamma = load_raw(args.gamma + c, left);
  RowInputs<T> in{};
  int64_t row = blockIdx.x;
  if (row < args.rows.rows) take<centred>(args, row, c, in);
  for (int turn = 0; row < args.rows.rows; row += gridDim.x, turn ^= 1) {
    float xhat[group], d[group], g[group];
    unpack<T>(in.x, xhat), unpack<T>(in.dy, d), unpack<T>(gamma, g);
    const Raw<T> plus = in.add;
    const float m = in.mean, r = in.rstd;
    // All of the next row is on its way while this row's sums are made; only dx of this row is written meanwhile.
    if (row + gridDim.x < args.rows.rows) take<centred>(args, row + gridDim.x, c, in);
    float sum = 0, dot = 0;
#pragma unroll
    for (int i = 0; i < group; ++i) {  // behind the end of the row d is 0, and xhat counts only times d
      xhat[i] = (xhat[i] - m) * r;
      dgamma[i] += d[i] * xhat[i];
      if constexpr (centred) dbeta[i] += d[i];
      d[i] *= args.base + g[i];
      if constexpr (centred) sum += d[i];
      dot += d[i] * xhat[i];
    }
    constexpr int warps = most_threads <= 128 ? 4 : most_threads <= 512 ? 16 : 32;
    const float2 sums = block_sums<warps>(sum, dot, shared[turn]);
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

// Rows longer than a block has registers for take two passes: the sums of the columns, and then dx, which may overwrite
// dy.
template <class T, bool centred>
struct WeightTerms {
  static constexpr int sums = centred ? 2 : 1, at_once = 1;
  Args<T> args;
  using Inputs = RowInputs<T>;
  __device__ Inputs load(int64_t row, int64_t c, int64_t) const {
    Inputs in;
    take<centred>(args, row, c, in);
    return in;
  }
  __device__ void add(const Inputs& in, float (&total)[sums][group]) const {
    float x[group], d[group];
    unpack<T>(in.x, x), unpack<T>(in.dy, d);
#pragma unroll
    for (int i = 0; i < group; ++i) {
      total[0][i] += d[i] * ((x[i] - in.mean) * in.rstd);
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
      dot += d[i] * (args.base + g[i]) * ((x[i] - m) * r);
    }
  }
  const float2 sums = block_sums<8>(sum, dot, shared);
  const float a = sums.x / static_cast<float>(C), b = sums.y / static_cast<float>(C);
  for (int64_t c = int64_t{group} * threadIdx.x; c < C; c += 256 * group) {
    float plus[group] = {};
    load(args.x + begin + c, C - c, x), load(args.dy + begin + c, C - c, d);
    load(args.gamma + c, C - c, g);
    if (args.add != nullptr) load(args.add + begin + c, C - c, plus);
#pragma unroll
    for (int i = 0; i < group; ++i) d[i] = plus[i] + r * (d[i] * (args.base + g[i]) - a - (x[i] - m) * r * b);
    save(args.dx + begin + c, C - c, d);
  }
}

template <class T, bool centred>
void launch(const Args<T>& args) {
  if (args.rows.C > longest_row) {
    Args<T> unadded = args;
    unadded.add = nullptr;  // which long_row_dx reads
    run_column_sums(WeightTerms<T, centred>{unadded}, args.rows.rows, args.rows.C, args.partials);
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
                       partials,
                       gamma_base(kind)};
    with_flag(kind == NormKind::layer, [&](auto centred) { launch<T, centred()>(args); });
  });
  const int64_t C = rows.C, parts = parts_for(rows.rows, C), stride = kind == NormKind::layer ? 2 * C : C;
  add_partials(partials, parts, stride, C, dgamma, kind == NormKind::layer ? dbeta : GradTarget{});
}

}  // namespace zrt::models::cuda
