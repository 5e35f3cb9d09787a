// Residual sums, dropout and copies.
#include "core/device.h"
#include "models/kernels/cuda/dropout.cuh"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

template <class T, bool masked>
struct AddResidual {
  const T *a, *b;
  T* y;
  Dropout dropout;
  uint64_t first;
  struct Inputs {
    Raw<T> a, b;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(a + at, left), load_raw(b + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float x[group], z[group], mask[group];
    unpack<T>(in.a, x), unpack<T>(in.b, z);
    if constexpr (masked) dropout_mask(dropout, first + static_cast<uint64_t>(at), mask);
#pragma unroll
    for (int i = 0; i < group; ++i) x[i] += masked ? z[i] * mask[i] : z[i];
    save(y + at, left, x);
  }
};

template <class T>
struct ApplyDropout {
  const T* x;
  T* y;
  Dropout dropout;
  uint64_t first;
  struct Inputs {
    Raw<T> x;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(x + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group], mask[group];
    unpack<T>(in.x, v);
    dropout_mask(dropout, first + static_cast<uint64_t>(at), mask);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] *= mask[i];
    save(y + at, left, v);
  }
};

template <class T>
struct CopyColumns {
  const T* x;
  int64_t x_stride;
  T* y;
  int64_t y_stride, n, groups;  // groups: of a row
};

template <class T>
__global__ void __launch_bounds__(256) copy_groups(CopyColumns<T> args, int64_t all) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (item >= all) return;
  const int64_t row = item / args.groups, c = item % args.groups * group;
  float v[group];
  load(args.x + row * args.x_stride + c, args.n - c, v);
  save(args.y + row * args.y_stride + c, args.n - c, v);
}

}  // namespace

void copy_columns(DType type, const void* x, int64_t x_stride, void* y, int64_t y_stride, int64_t rows, int64_t n) {
  const int64_t groups = (n + group - 1) / group, all = rows * groups;
  if (all == 0) return;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const CopyColumns<T> args{static_cast<const T*>(x), x_stride, static_cast<T*>(y), y_stride, n, groups};
    core::cuda::launch(copy_groups<T>, blocks_for(all, 256), 256, 0, args, all);
  });
}

void add_residual(DType type, const void* a, const void* b, const Dropout& dropout, uint64_t first, void* y,
                  int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    with_flag(dropout.probability != 0, [&](auto masked) {
      run_elementwise(AddResidual<T, masked()>{static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y),
                                               dropout, first},
                      n);
    });
  });
}

void apply_dropout(DType type, const void* x, const Dropout& dropout, uint64_t first, void* y, int64_t n) {
  if (dropout.probability == 0) {
    if (x != y) core::copy_bytes(y, x, static_cast<uint64_t>(n) * core::dtype_size(type));
    return;
  }
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(ApplyDropout<T>{static_cast<const T*>(x), static_cast<T*>(y), dropout, first}, n);
  });
}

}  // namespace zrt::models::cuda
