// Kernels for telling the order of two runs of text: one row for each sample, so one pass of few threads.
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/sentence_order.h"
#include "models/masking.h"

namespace zrt::models::cuda {
namespace {

template <class T>
struct Tanh {
  T* x;
  struct Inputs {
    Raw<T> x;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(x + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group];
    unpack<T>(in.x, v);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] = tanhf(v[i]);
    save(x + at, left, v);
  }
};

template <class T>
struct TanhBackward {
  const T* y;
  T* d;
  struct Inputs {
    Raw<T> y, d;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(y + at, left), load_raw(d + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group], dv[group];
    unpack<T>(in.y, v), unpack<T>(in.d, dv);
#pragma unroll
    for (int i = 0; i < group; ++i) dv[i] *= 1.0f - v[i] * v[i];
    save(d + at, left, dv);
  }
};

template <class T>
struct OrderArgs {
  const T* logits;
  OrderShape shape;
  const int32_t* targets;
  double weight;
  float gradient_scale;
  double* losses;
  T* d;
};

template <class T>
__global__ void __launch_bounds__(128) order_rows(OrderArgs<T> args) {
  const int64_t b = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (b >= args.shape.B) return;
  const T* row = args.logits + b * args.shape.stride;
  const int32_t label = in_order - args.targets[b * args.shape.T];
  const bool counted = label == 0 || label == 1;
  const float other = counted ? widen(row[1 - label]) - widen(row[label]) : 0.0f;
  const float e = expf(-fabsf(other)), wrong = other > 0 ? 1.0f / (1.0f + e) : e / (1.0f + e);
  args.losses[b] = counted ? args.weight * static_cast<double>(fmaxf(other, 0.0f) + log1pf(e)) : 0.0;
  if (args.d == nullptr) return;
  for (int32_t v = 0; v < 2; ++v) {
    const float gradient = counted ? (v == label ? -wrong : wrong) * args.gradient_scale : 0.0f;
    args.d[2 * b + v] = narrow<T>(gradient);
  }
}

}  // namespace

void tanh_of(DType type, void* x, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(Tanh<T>{static_cast<T*>(x)}, n);
  });
}

void tanh_backward(DType type, const void* y, void* d, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(TanhBackward<T>{static_cast<const T*>(y), static_cast<T*>(d)}, n);
  });
}

void order_loss(DType type, const void* logits, const OrderShape& shape, const int32_t* targets, double weight,
                float gradient_scale, double* losses, void* d) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const OrderArgs<T> args{
        static_cast<const T*>(logits), shape, targets, weight, gradient_scale, losses, static_cast<T*>(d)};
    core::cuda::launch(order_rows<T>, blocks_for(shape.B, 128), 128, 0, args);
  });
}

}  // namespace zrt::models::cuda
