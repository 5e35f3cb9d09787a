// Products of experts: their pointers in portions that a kernel takes, and the kernel for what the tensor cores do not
// take: fp32, and rows that do not lie on 16 bytes.
#include <algorithm>

#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/expert_tiles.cuh"
#include "models/kernels/cuda/gradient.cuh"

namespace zrt::models::cuda {
namespace {

// A thread computes 4 × 4 elements of a tile.
constexpr int tile_size = 64, depth = 16, threads = 256;

template <class T, ExpertRole role>
__global__ void __launch_bounds__(threads) simple_kernel(const __grid_constant__ ExpertCall call) {
  constexpr bool in_slots = role != ExpertRole::weight_gradient;  // A's rows, and the result's
  __shared__ float4 a_tile[depth][tile_size / 4 + 1], b_tile[depth][tile_size / 4 + 1];
  const ExpertTile tile = own_tile<role, tile_size>(call);
  if (tile.expert < 0) return;
  const TileTarget target = target_of<role>(call, tile);
  const int K = in_slots ? call.K : tile.count, M = in_slots ? tile.count : call.M, N = call.N;
  if (!in_slots && leaves(target.to, K)) return;
  const T* const a = static_cast<const T*>(call.a) + tile.start * (in_slots ? K : M);
  const T* const b =
      in_slots ? static_cast<const T*>(call.matrix[tile.expert]) : static_cast<const T*>(call.b) + tile.start * N;
  const int thread = static_cast<int>(threadIdx.x), tx = thread % 16, ty = thread / 16;
  float sums[4][4] = {};
  for (int begin = 0; begin < K; begin += depth) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // Neighbouring threads read neighbouring elements.
      const int along = thread % 16, across = thread / 16 + 16 * i;
      const int k = thread / tile_size + 4 * i, column = thread % tile_size;
      float x = 0, y = 0;
      if constexpr (in_slots) {
        if (tile.row + across < M && begin + along < K) x = widen(a[int64_t{tile.row + across} * K + begin + along]);
        reinterpret_cast<float*>(a_tile[along])[across] = x;
      } else {
        if (tile.row + column < M && begin + k < K) x = widen(a[int64_t{begin + k} * M + tile.row + column]);
        reinterpret_cast<float*>(a_tile[k])[column] = x;
      }
      if constexpr (role == ExpertRole::forward) {
        if (tile.column + across < N && begin + along < K) {
          y = widen(b[int64_t{tile.column + across} * K + begin + along]);
        }
        reinterpret_cast<float*>(b_tile[along])[across] = y;
      } else {
        if (tile.column + column < N && begin + k < K) y = widen(b[int64_t{begin + k} * N + tile.column + column]);
        reinterpret_cast<float*>(b_tile[k])[column] = y;
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < depth; ++k) {
      const float4 left = a_tile[k][ty], right = b_tile[k][tx];
      const float x[4] = {left.x, left.y, left.z, left.w}, y[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = 4 * ty + i, column = tile.column + 4 * tx + j;
      if (row < target.rows && column < N) write_gradient(target.to, (target.first + row) * N + column, sums[i][j]);
    }
  }
}

template <ExpertRole role>
void multiply_simply(const ExpertCall& call) {
  with_type(call.type, [&](auto zero) {
    core::cuda::launch(simple_kernel<decltype(zero), role>, static_cast<unsigned>(call.tiles(role, tile_size)), threads,
                       0, call);
  });
}

// matrix(e): of expert e; its null is 16 bytes aligned.
template <ExpertRole role, class Matrix>
void multiply(const ExpertProduct& of, ExpertCall call, const Matrix& matrix) {
  call.type = of.type, call.slots = of.slots;
  bool whole = of.type != DType::f32 && of.in % 8 == 0 && of.out % 8 == 0 && aligned16(call.a, call.b);
  for (int64_t begin = 0; begin < of.experts; begin += ExpertCall::most) {
    call.experts = static_cast<int>(std::min<int64_t>(ExpertCall::most, of.experts - begin));
    call.starts = of.starts + begin, call.counts = of.counts + begin;
    for (int i = 0; i < call.experts; ++i) {
      const GradTarget one = matrix(begin + i);
      call.matrix[i] = one.data, call.accumulate[i] = one.accumulate ? 1 : 0;
      whole = whole && aligned16(one.data);
    }
    if (call.tiles(role, tile_size) == 0) return;
    if (whole) {
      multiply_on_tensor_cores(role, call);
    } else {
      multiply_simply<role>(call);
    }
  }
}

int size_of(int64_t n) {
  return static_cast<int>(n);
}

}  // namespace

uint64_t experts_workspace(const ExpertProduct&) {
  return 0;
}

void experts_forward(const ExpertProduct& of, const void* x, const ExpertWeights& weights, void* y, std::byte*) {
  const ExpertCall call{.a = x, .c = y, .c_type = of.type, .N = size_of(of.out), .K = size_of(of.in)};
  multiply<ExpertRole::forward>(of, call, [&](int64_t e) { return GradTarget{const_cast<void*>(weights.of(e))}; });
}

void experts_input_gradient(const ExpertProduct& of, const void* dy, const ExpertWeights& weights, bool add, void* dx,
                            std::byte*) {
  const ExpertCall call{.a = dy, .c = dx, .c_type = of.type, .add = add, .N = size_of(of.in), .K = size_of(of.out)};
  multiply<ExpertRole::input_gradient>(of, call,
                                       [&](int64_t e) { return GradTarget{const_cast<void*>(weights.of(e))}; });
}

void experts_weight_gradients(const ExpertProduct& of, const void* x, const void* dy, const ExpertGradients& gradients,
                              std::byte*) {
  const ExpertCall call{.a = dy, .b = x, .c_type = gradients.type, .M = size_of(of.out), .N = size_of(of.in)};
  multiply<ExpertRole::weight_gradient>(of, call, [&](int64_t e) { return gradients.of(e); });
}

}  // namespace zrt::models::cuda
