#include "models/kernels/cuda/column_sums.cuh"
#include "models/kernels/cuda/partial_sums.h"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

template <class T>
struct Elements {
  static constexpr int sums = 1, at_once = 4;
  const T* x;
  int64_t stride;
  using Inputs = Raw<T>;
  __device__ Inputs load(int64_t row, int64_t c, int64_t left) const { return load_raw(x + row * stride + c, left); }
  __device__ void add(const Inputs& in, float (&total)[sums][group]) const {
    float v[group];
    unpack<T>(in, v);
#pragma unroll
    for (int i = 0; i < group; ++i) total[0][i] += v[i];
  }
};

}  // namespace

uint64_t bias_gradient_workspace(int64_t rows, int64_t n) {
  return static_cast<uint64_t>(row_parts(rows, n) * n) * sizeof(float);
}

void bias_gradient(DType type, const void* x, int64_t rows, int64_t n, int64_t stride, GradTarget grad,
                   void* workspace) {
  auto* partials = static_cast<float*>(workspace);
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_column_sums(Elements<T>{static_cast<const T*>(x), stride}, rows, n, partials);
  });
  add_partials(partials, row_parts(rows, n), n, n, grad);
}

}  // namespace zrt::models::cuda
