// The vector kernels, compiled once per instruction set (see cmake/zrt_isa.cmake). Each kernel
// works on one piece (a row, some rows, some columns) on the calling thread; kernels.cpp and attention.cpp spread the
// pieces over threads. Pointers may be unaligned. T is float, core::bf16 or core::f16; arithmetic is fp32.
#pragma once
#include <cstdint>

#include "core/dtype.h"
#include "core/isa.h"
#include "models/kernels/logit_part.h"

namespace zrt::models::cpu {

// Dropout of one site: element `index` is kept when core::uniform of its Philox word is at least `probability`.
struct DropoutKey {
  uint64_t seed = 0;
  uint32_t step = 0, tensor = 0;
  float probability = 0;
};

template <class T>
struct NormKernels {
  // y = gamma · (x - mean) · rstd + beta, row by row of width C; mean and rstd may be null. An RMS norm has base +
  // gamma in place of gamma, a layer norm in dx alone, where it is 0.
  void (*forward)(const T* x, const T* gamma, const T* beta, T* y, float* mean, float* rstd, float epsilon, float base,
                  int64_t rows, int64_t C);
  // dx = [add +] the gradient of x; dx may be dy or add.
  void (*dx)(const T* x, const T* gamma, const T* dy, const float* mean, const float* rstd, const T* add, T* dx,
             float base, int64_t rows, int64_t C);
  // Columns [begin, begin + n), n <= column_tile, of the sums over rows of dy · xhat and dy.
  void (*dweights)(const T* x, const T* dy, const float* mean, const float* rstd, int64_t rows, int64_t C,
                   int64_t begin, int64_t n, float* dgamma, float* dbeta);
};

template <class T>
struct TypedKernels {
  NormKernels<T> layernorm;
  NormKernels<T> rmsnorm;  // mean and beta count as 0 and are not touched
  void (*column_sums)(const T* x, int64_t rows, int64_t ld, int64_t begin, int64_t n, float* sums);
  void (*gelu)(const T* x, T* y, int64_t n);
  // y = gelu(x), d = d · gelu'(x).
  void (*gelu_backward)(const T* x, T* d, T* y, int64_t n);
  void (*gelu_erf)(const T* x, T* y, int64_t n);
  void (*gelu_erf_backward)(const T* x, T* d, T* y, int64_t n);
  // y = silu(gate) · up.
  void (*swiglu)(const T* gate, const T* up, T* y, int64_t n);
  // Makes from d, the gradient of y: d_up, and d = that of gate.
  void (*swiglu_backward)(const T* gate, const T* up, T* d, T* d_up, int64_t n);
  void (*geglu)(const T* gate, const T* up, T* y, int64_t n);
  void (*geglu_backward)(const T* gate, const T* up, T* d, T* d_up, int64_t n);
  void (*scale)(const T* x, float factor, T* y, int64_t n);
  void (*soft_cap)(T* x, float cap, int64_t n);
  // The pairs (x[i], x[half + i]), i < n, turned by angles with these cosines and sines.
  void (*rotate)(T* x, const float* cosine, const float* sine, int64_t n, int64_t half);
  // y = a + b · mask, or a + b without a mask; y may be a or b.
  void (*add)(const T* a, const T* b, const float* mask, T* y, int64_t n);
  // y = (a + b) · mask.
  void (*add_then_mask)(const T* a, const T* b, const float* mask, T* y, int64_t n);
  void (*multiply)(const T* x, const float* mask, T* y, int64_t n);
  void (*accumulate)(const T* x, const float* mask, float* sum, int64_t n);  // sum += x [· mask]
  void (*write)(const float* x, T* y, bool accumulate, int64_t n);           // y = [y +] x
  // p = softmax(scale · s[0 … valid)) [· mask], zero up to n; s is overwritten. Returns the log of the sum of exps.
  float (*softmax)(float* s, T* p, int64_t valid, int64_t n, float scale, const float* mask);
  // p as above from its log-sum-exp, ds = scale · p · (dp [· mask] - its mean under p); zero from valid to n. s is
  // overwritten; p may be s and ds may be dp.
  void (*softmax_backward)(float* s, const float* dp, T* p, T* ds, int64_t valid, int64_t n, float scale, float lse,
                           const float* mask);
  // The same two of scores that are capped behind the scale. tanh has room for `valid` numbers.
  float (*capped_softmax)(float* s, T* p, int64_t valid, int64_t n, float scale, float cap, const float* mask);
  void (*capped_softmax_backward)(float* s, const float* dp, T* p, T* ds, int64_t valid, int64_t n, float scale,
                                  float cap, float lse, const float* mask, float* tanh);
  // Loss of a row of logits; when gradient_scale is not 0 the row becomes gradient_scale · (softmax - one_hot), and
  // with a cap that times the slope of the cap.
  double (*cross_entropy)(T* logits, int64_t V, int64_t target, float cap, float gradient_scale);
  // The same of a row cut among ranks, of which V logits are here. target: from the first of them, -1 where it is
  // elsewhere; parts: of all ranks, `stride` apart.
  LogitPart (*logit_part)(const T* logits, int64_t V, int64_t target);
  double (*cross_entropy_part)(T* logits, int64_t V, int64_t target, const LogitPart* parts, int64_t ranks,
                               int64_t stride, float cap, float gradient_scale);
  // out = softmax(scale · K q) V over n keys, with scores capped where there is a cap; K and V are (n, width); scores
  // has room for n.
  void (*attend)(const T* q, const T* keys, const T* values, int64_t n, int64_t width, float scale, float cap,
                 float* scores, T* out);
  void (*widen)(const T* x, float* y, int64_t n);
};

inline constexpr int64_t column_tile = 64;

struct VectorKernels {
  const char* name;
  TypedKernels<float> f32;
  TypedKernels<core::bf16> bf16;
  TypedKernels<core::f16> f16;
  // mask[i] = 0 or 1 / (1 - probability) for elements index … index + n.
  void (*dropout_mask)(const DropoutKey& key, uint64_t index, float* mask, int64_t n);
  // An fp32 sum kept as high half (in a bf16 tensor) and low half: [hi:lo +] x, then rounded to hi when `last`.
  // first: the old value is hi alone (keep) or nothing.
  void (*split_add)(const float* x, core::bf16* hi, uint16_t* lo, bool first, bool keep, bool last, int64_t n);
};

const VectorKernels& vector_kernels();  // of the level this process computes at
const VectorKernels& vector_kernels(core::Isa isa);

template <class T>
const TypedKernels<T>& typed_kernels();
template <>
inline const TypedKernels<float>& typed_kernels<float>() {
  return vector_kernels().f32;
}
template <>
inline const TypedKernels<core::bf16>& typed_kernels<core::bf16>() {
  return vector_kernels().bf16;
}
template <>
inline const TypedKernels<core::f16>& typed_kernels<core::f16>() {
  return vector_kernels().f16;
}

// The sets themselves.
namespace v3 {
extern const VectorKernels kernels;
}
namespace v4 {
extern const VectorKernels kernels;
}

}  // namespace zrt::models::cpu
