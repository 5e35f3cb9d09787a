#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/scaling.h"

namespace zrt::models::cuda {
namespace {

template <class T>
struct Scale {
  const T* x;
  float factor;
  T* y;
  struct Inputs {
    Raw<T> x;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(x + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group];
    unpack<T>(in.x, v);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] *= factor;
    save(y + at, left, v);
  }
};

template <class T>
struct SoftCap {
  T* x;
  float cap;
  struct Inputs {
    Raw<T> x;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(x + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group];
    unpack<T>(in.x, v);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] = cap * tanhf(v[i] / cap);
    save(x + at, left, v);
  }
};

}  // namespace

void scale_elements(DType type, const void* x, float factor, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(Scale<T>{static_cast<const T*>(x), factor, static_cast<T*>(y)}, n);
  });
}

void soft_cap(DType type, void* x, float cap, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(SoftCap<T>{static_cast<T*>(x), cap}, n);
  });
}

}  // namespace zrt::models::cuda
