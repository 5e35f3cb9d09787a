// GELU, SwiGLU and GeGLU. Exponentials of bf16 and fp16 tensors are the fast ones: their error, some 1e-6, vanishes in
// rounding.
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

// e^x, at most e^88, so that products with its inverse stay numbers. NaN passes through.
template <class T>
__device__ float exponential(float x) {
  const float limited = x > 88.0f ? 88.0f : x;
  return sizeof(T) == 4 ? expf(limited) : __expf(limited);
}

// 1 / (1 + e)
template <class T>
__device__ float sigmoid_of(float e) {
  return sizeof(T) == 4 ? 1.0f / (1.0f + e) : __fdividef(1.0f, 1.0f + e);
}

// e^-2u with u = sqrt(2/pi) (x + 0.044715 x^3); GELU is x / (1 + e^-2u).
template <class T>
__device__ float gelu_exp(float x) {
  return exponential<T>(-1.5957691216057308f * (x + 0.044715f * x * x * x));
}

// Holds what a gate makes of x, and its slope there.
struct Bent {
  float value, slope;
};

template <class T>
struct SiluGate {
  static __device__ float value(float x) { return x * sigmoid_of<T>(exponential<T>(-x)); }
  static __device__ Bent bent(float x) {
    const float e = exponential<T>(-x), s = sigmoid_of<T>(e);
    return {x * s, s + x * s * (e * s)};
  }
};

template <class T>
struct GeluGate {
  static __device__ float value(float x) { return x * sigmoid_of<T>(gelu_exp<T>(x)); }
  static __device__ Bent bent(float x) {
    const float e = gelu_exp<T>(x), s = sigmoid_of<T>(e);
    const float slope = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * x * x);  // d(2u)/dx
    return {x * s, s + x * s * (e * s) * slope};
  }
};

template <class T>
struct Gelu {
  const T* x;
  T* y;
  struct Inputs {
    Raw<T> x;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(x + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group];
    unpack<T>(in.x, v);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] = GeluGate<T>::value(v[i]);
    save(y + at, left, v);
  }
};

template <class T>
struct GeluBackward {
  const T* x;
  T *d, *y;
  struct Inputs {
    Raw<T> x, d;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(x + at, left), load_raw(d + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group], dv[group];
    unpack<T>(in.x, v), unpack<T>(in.d, dv);
#pragma unroll
    for (int i = 0; i < group; ++i) {
      const Bent gelu = GeluGate<T>::bent(v[i]);
      v[i] = gelu.value;
      dv[i] = dv[i] * gelu.slope;
    }
    if (y != nullptr) save(y + at, left, v);
    save(d + at, left, dv);
  }
};

// Φ(x), the normal distribution.
__device__ inline float normal_below(float x) {
  return 0.5f * erfcf(-0.70710678f * x);
}

template <class T>
struct GeluErf {
  const T* x;
  T* y;
  struct Inputs {
    Raw<T> x;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(x + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group];
    unpack<T>(in.x, v);
#pragma unroll
    for (int i = 0; i < group; ++i) v[i] = v[i] * normal_below(v[i]);
    save(y + at, left, v);
  }
};

template <class T>
struct GeluErfBackward {
  const T* x;
  T *d, *y;
  struct Inputs {
    Raw<T> x, d;
  };
  __device__ Inputs load(int64_t at, int64_t left) const { return {load_raw(x + at, left), load_raw(d + at, left)}; }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float v[group], dv[group];
    unpack<T>(in.x, v), unpack<T>(in.d, dv);
#pragma unroll
    for (int i = 0; i < group; ++i) {
      const float x = v[i], below = normal_below(x);
      v[i] = x * below;
      dv[i] = dv[i] * (below + x * (0.39894228f * exponential<T>(-0.5f * x * x)));
    }
    if (y != nullptr) save(y + at, left, v);
    save(d + at, left, dv);
  }
};

// SwiGLU or GeGLU.
template <class T, class Gate>
struct Gated {
  const T *gate, *up;
  T* y;
  struct Inputs {
    Raw<T> gate, up;
  };
  __device__ Inputs load(int64_t at, int64_t left) const {
    return {load_raw(gate + at, left), load_raw(up + at, left)};
  }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float g[group], u[group];
    unpack<T>(in.gate, g), unpack<T>(in.up, u);
#pragma unroll
    for (int i = 0; i < group; ++i) g[i] = Gate::value(g[i]) * u[i];
    save(y + at, left, g);
  }
};

template <class T, class Gate>
struct GatedBackward {
  const T *gate, *up;
  T *d, *d_up;
  struct Inputs {
    Raw<T> gate, up, d;
  };
  __device__ Inputs load(int64_t at, int64_t left) const {
    return {load_raw(gate + at, left), load_raw(up + at, left), load_raw(d + at, left)};
  }
  __device__ void finish(int64_t at, int64_t left, const Inputs& in) const {
    float g[group], u[group], dy[group];
    unpack<T>(in.gate, g), unpack<T>(in.up, u), unpack<T>(in.d, dy);
#pragma unroll
    for (int i = 0; i < group; ++i) {
      const Bent bent = Gate::bent(g[i]);
      g[i] = dy[i] * u[i] * bent.slope;
      u[i] = dy[i] * bent.value;
    }
    save(d_up + at, left, u), save(d + at, left, g);
  }
};

template <template <class> class Gate>
void gated(DType type, const void* gate, const void* up, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(Gated<T, Gate<T>>{static_cast<const T*>(gate), static_cast<const T*>(up), static_cast<T*>(y)}, n);
  });
}

template <template <class> class Gate>
void gated_backward(DType type, const void* gate, const void* up, void* d, void* d_up, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(GatedBackward<T, Gate<T>>{static_cast<const T*>(gate), static_cast<const T*>(up),
                                              static_cast<T*>(d), static_cast<T*>(d_up)},
                    n);
  });
}

}  // namespace

void gelu(DType type, const void* x, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(Gelu<T>{static_cast<const T*>(x), static_cast<T*>(y)}, n);
  });
}

void gelu_backward(DType type, const void* x, void* d, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(GeluBackward<T>{static_cast<const T*>(x), static_cast<T*>(d), static_cast<T*>(y)}, n);
  });
}

void gelu_erf(DType type, const void* x, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(GeluErf<T>{static_cast<const T*>(x), static_cast<T*>(y)}, n);
  });
}

void gelu_erf_backward(DType type, const void* x, void* d, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    run_elementwise(GeluErfBackward<T>{static_cast<const T*>(x), static_cast<T*>(d), static_cast<T*>(y)}, n);
  });
}

void swiglu(DType type, const void* gate, const void* up, void* y, int64_t n) {
  gated<SiluGate>(type, gate, up, y, n);
}

void swiglu_backward(DType type, const void* gate, const void* up, void* d, void* d_up, int64_t n) {
  gated_backward<SiluGate>(type, gate, up, d, d_up, n);
}

void geglu(DType type, const void* gate, const void* up, void* y, int64_t n) {
  gated<GeluGate>(type, gate, up, y, n);
}

void geglu_backward(DType type, const void* gate, const void* up, void* d, void* d_up, int64_t n) {
  gated_backward<GeluGate>(type, gate, up, d, d_up, n);
}

}  // namespace zrt::models::cuda
