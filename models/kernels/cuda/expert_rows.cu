// Rows on their way to the slots of experts and back, and gates: passes over memory, in which a warp takes up to 256
// columns of a row, 8 in a lane.
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/reduce.cuh"
#include "models/kernels/cuda/vector_io.cuh"
#include "models/kernels/experts.h"

namespace zrt::models::cuda {
namespace {

constexpr int threads = 256, piece = 32 * group;

int64_t warps_for(int64_t rows, int64_t columns) {
  return rows * ((columns + piece - 1) / piece);
}

struct Piece {
  int64_t row, column;  // the first of a lane
};
__device__ Piece own_piece(int64_t columns) {
  const int64_t warp = (int64_t{blockIdx.x} * threads + threadIdx.x) / 32, pieces = (columns + piece - 1) / piece;
  return {warp / pieces, warp % pieces * piece + threadIdx.x % 32 * group};
}

// Copies bits as they are.
template <class T>
__device__ void copy_group(T* to, const T* from, int64_t left) {
  if (whole(to, left) && whole(from, left)) {
    const Raw<T> raw = load_words(from);
#pragma unroll
    for (size_t i = 0; i < group * sizeof(T) / 16; ++i) reinterpret_cast<uint4*>(to)[i] = raw.words[i];
    return;
  }
  for (int i = 0; i < min(int64_t{group}, left); ++i) to[i] = from[i];
}

template <class T>
__global__ void __launch_bounds__(threads)
    to_slots_kernel(int64_t slots, int64_t choices, const int32_t* choice, const T* x, int64_t C, T* y) {
  const Piece at = own_piece(C);
  if (at.row >= slots || at.column >= C) return;
  const int64_t of = choice[at.row];
  T* const to = y + at.row * C + at.column;
  if (of >= 0) return copy_group(to, x + of / choices * C + at.column, C - at.column);
  const float zeros[group] = {};
  save(to, C - at.column, zeros);
}

template <class T>
__global__ void __launch_bounds__(threads)
    to_rows_kernel(int64_t rows, int64_t choices, const int32_t* slot, const T* x, int64_t C, const T* add, T* y) {
  const Piece at = own_piece(C);
  if (at.row >= rows || at.column >= C) return;
  const int64_t left = C - at.column;
  float sums[group] = {};
  for (int64_t j = 0; j < choices; ++j) {
    const int64_t from = slot[at.row * choices + j];
    if (from < 0) continue;
    float v[group];
    load(x + from * C + at.column, left, v);
#pragma unroll
    for (int i = 0; i < group; ++i) sums[i] += v[i];
  }
  if (add != nullptr) {
    float base[group];
    load(add + at.row * C + at.column, left, base);
#pragma unroll
    for (int i = 0; i < group; ++i) sums[i] = base[i] + sums[i];
  }
  save(y + at.row * C + at.column, left, sums);
}

template <class T>
__global__ void __launch_bounds__(threads)
    gates_kernel(int64_t slots, const int32_t* choice, const float* gate, int64_t F, T* x) {
  const Piece at = own_piece(F);
  if (at.row >= slots || at.column >= F) return;
  const int32_t of = choice[at.row];
  T* const values = x + at.row * F + at.column;
  float v[group] = {};
  if (of >= 0) {
    const float factor = gate[of];
    load(values, F - at.column, v);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] *= factor;
  }
  save(values, F - at.column, v);
}

__global__ void __launch_bounds__(threads)
    experts_kernel(int64_t slots, int32_t each, const int32_t* choice, const int32_t* expert, int32_t* picked) {
  const int64_t slot = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (slot >= slots) return;
  const int32_t of = choice[slot];
  picked[slot] = of < 0 ? -1 : expert[of] % each;
}

// A warp takes all of a slot.
template <class T>
__global__ void __launch_bounds__(threads)
    gates_backward_kernel(int64_t slots, const int32_t* choice, const float* gate, int64_t F, T* x, T* d,
                          float* d_gate) {
  const int64_t slot = (int64_t{blockIdx.x} * threads + threadIdx.x) / 32;
  if (slot >= slots) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t of = choice[slot];
  const float factor = of < 0 ? 0 : gate[of];
  float sum = 0;
  for (int64_t at = lane * group; at < F; at += piece) {
    T *const values = x + slot * F + at, *const gradients = d + slot * F + at;
    float v[group] = {}, g[group] = {};
    if (of >= 0) {
      load(values, F - at, v), load(gradients, F - at, g);
#pragma unroll
      for (int i = 0; i < group; ++i) {
        sum += v[i] * g[i];
        v[i] *= factor, g[i] *= factor;
      }
    }
    save(values, F - at, v), save(gradients, F - at, g);
  }
  sum = warp_sum(sum);
  if (lane == 0 && of >= 0) d_gate[of] = sum;
}

}  // namespace

void experts_to_slots(const RoutingShape& shape, const int32_t* choice, const int32_t* expert, int32_t* picked) {
  core::cuda::launch(experts_kernel, blocks_for(shape.slots(), threads), threads, 0, shape.slots(),
                     static_cast<int32_t>(shape.experts / shape.ranks), choice, expert, picked);
}

void rows_to_slots(DType type, const RoutingShape& shape, const int32_t* choice, const void* x, int64_t C, void* y) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::cuda::launch(to_slots_kernel<T>, blocks_for(32 * warps_for(shape.slots(), C), threads), threads, 0,
                       shape.slots(), shape.choices(), choice, static_cast<const T*>(x), C, static_cast<T*>(y));
  });
}

void slots_to_rows(DType type, const RoutingShape& shape, const int32_t* slot, const void* x, int64_t C,
                   const void* add, void* y) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::cuda::launch(to_rows_kernel<T>, blocks_for(32 * warps_for(shape.rows, C), threads), threads, 0, shape.rows,
                       shape.choices(), slot, static_cast<const T*>(x), C, static_cast<const T*>(add),
                       static_cast<T*>(y));
  });
}

void apply_gates(DType type, const RoutingShape& shape, const int32_t* choice, const float* gate, int64_t F, void* x) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::cuda::launch(gates_kernel<T>, blocks_for(32 * warps_for(shape.slots(), F), threads), threads, 0,
                       shape.slots(), choice, gate, F, static_cast<T*>(x));
  });
}

void apply_gates_backward(DType type, const RoutingShape& shape, const int32_t* choice, const float* gate, int64_t F,
                          void* x, void* d, float* d_gate) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::cuda::launch(gates_backward_kernel<T>, blocks_for(32 * shape.slots(), threads), threads, 0, shape.slots(),
                       choice, gate, F, static_cast<T*>(x), static_cast<T*>(d), d_gate);
  });
}

}  // namespace zrt::models::cuda
