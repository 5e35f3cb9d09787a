// Element-wise kernels: GELU, SwiGLU, GeGLU, scaling, rotations, residual sums, dropout masks, writing of gradients.

// GELU with the tanh approximation: x · sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).
inline float gelu_exp(float x) {
  const float u2 = 1.5957691216057308f * (x + 0.044715f * x * x * x);
  return exp_approx(-u2);
}

template <class T>
void gelu(const T* x, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float v = load(x + i);
    save(y + i, v * (1.0f / (1.0f + gelu_exp(v))));  // as backward does, to the bit
  }
}

template <bool again, class T>
void gelu_gradient(const T* x, T* d, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float v = load(x + i);
    const float e = gelu_exp(v);
    const float s = 1.0f / (1.0f + e);
    const float slope = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * v * v);  // d(2u)/dx
    if (again) save(y + i, v * s);
    save(d + i, load(d + i) * (s + v * s * (e * s) * slope));
  }
}

template <class T>
void gelu_backward(const T* x, T* d, T* y, int64_t n) {
  (y != nullptr ? gelu_gradient<true, T> : gelu_gradient<false, T>)(x, d, y, n);
}

// Φ(x), the normal distribution, and its density, within 1.2e-7 relative. The tail Φ(-|x|) is e^(-x²/2) · t · P(t) with
// t = 1 / (1 + 0.32 |x|); P interpolates in the ten Chebyshev nodes of 0 … 1, which leaves 6e-8.
struct Normal {
  float below, density;
};
inline Normal normal_at(float x) {
  const float t = 1.0f / __builtin_fmaf(0.32f, __builtin_fabsf(x), 1.0f);
  float p = -0.021623132f;
  p = __builtin_fmaf(p, t, 0.097935216f);
  p = __builtin_fmaf(p, t, -0.15160770f);
  p = __builtin_fmaf(p, t, 0.070468263f);
  p = __builtin_fmaf(p, t, -0.012534000f);
  p = __builtin_fmaf(p, t, 0.059799327f);
  p = __builtin_fmaf(p, t, 0.087593530f);
  p = __builtin_fmaf(p, t, 0.11464703f);
  p = __builtin_fmaf(p, t, 0.12765991f);
  p = __builtin_fmaf(p, t, 0.12766154f);
  const float e = exp_approx(-0.5f * x * x), tail = e * t * p;
  return {x < 0 ? tail : 1.0f - tail, 0.39894228f * e};
}

template <class T>
void gelu_erf(const T* x, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float v = load(x + i);
    save(y + i, v * normal_at(v).below);
  }
}

template <bool again, class T>
void gelu_erf_gradient(const T* x, T* d, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float v = load(x + i);
    const Normal at = normal_at(v);
    if (again) save(y + i, v * at.below);
    save(d + i, load(d + i) * (at.below + v * at.density));
  }
}

template <class T>
void gelu_erf_backward(const T* x, T* d, T* y, int64_t n) {
  (y != nullptr ? gelu_erf_gradient<true, T> : gelu_erf_gradient<false, T>)(x, d, y, n);
}

template <class T>
void swiglu(const T* gate, const T* up, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = load(gate + i);
    save(y + i, g * (1.0f / (1.0f + exp_approx(-g))) * load(up + i));
  }
}

template <class T>
void swiglu_backward(const T* gate, const T* up, T* d, T* d_up, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = load(gate + i), dy = load(d + i);
    const float e = exp_approx(-g);
    const float s = 1.0f / (1.0f + e);
    save(d_up + i, dy * (g * s));
    save(d + i, dy * load(up + i) * (s + g * s * (e * s)));
  }
}

template <class T>
void geglu(const T* gate, const T* up, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = load(gate + i);
    save(y + i, g * (1.0f / (1.0f + gelu_exp(g))) * load(up + i));
  }
}

template <class T>
void geglu_backward(const T* gate, const T* up, T* d, T* d_up, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = load(gate + i), dy = load(d + i);
    const float e = gelu_exp(g);
    const float s = 1.0f / (1.0f + e);
    const float slope = 1.5957691216057308f * (1.0f + 3.0f * 0.044715f * g * g);
    save(d_up + i, dy * (g * s));
    save(d + i, dy * load(up + i) * (s + g * s * (e * s) * slope));
  }
}

template <class T>
void multiply_by(const T* x, float factor, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) save(y + i, factor * load(x + i));
}

template <class T>
void soft_cap(T* x, float cap, int64_t n) {
  const float inverse = 1.0f / cap;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) save(x + i, cap * tanh_approx(load(x + i) * inverse));
}

template <class T>
void rotate(T* x, const float* cosine, const float* sine, int64_t n, int64_t half) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float a = load(x + i), b = load(x + half + i);
    save(x + i, a * cosine[i] - b * sine[i]);
    save(x + half + i, b * cosine[i] + a * sine[i]);
  }
}

template <class T>
void add(const T* a, const T* b, const float* mask, T* y, int64_t n) {
  if (mask == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) save(y + i, load(a + i) + load(b + i));
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) save(y + i, load(a + i) + load(b + i) * mask[i]);
}

template <class T>
void add_then_mask(const T* a, const T* b, const float* mask, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) save(y + i, (load(a + i) + load(b + i)) * mask[i]);
}

template <class T>
void multiply(const T* x, const float* mask, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) save(y + i, load(x + i) * mask[i]);
}

template <class T>
void accumulate(const T* x, const float* mask, float* sum, int64_t n) {
  if (mask == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] += load(x + i);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] += load(x + i) * mask[i];
}

template <class T>
void write(const float* x, T* y, bool accumulate_to, int64_t n) {
  if (accumulate_to) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) save(y + i, load(y + i) + x[i]);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) save(y + i, x[i]);
}

template <class T>
void widen(const T* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = load(x + i);
}

void dropout_mask(const DropoutKey& key, uint64_t index, float* mask, int64_t n) {
  const float scale = 1.0f / (1.0f - key.probability);
  uint32_t words[64];
  for (int64_t done = 0; done < n;) {
    const uint64_t at = index + static_cast<uint64_t>(done);
    const int64_t skip = static_cast<int64_t>(at & 3);
    const int64_t count = n - done < 64 - skip ? n - done : 64 - skip;
    philox16(key, at >> 2, words);
    const uint32_t* from = words + skip;
    float* to = mask + done;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const float uniform = (static_cast<float>(static_cast<int32_t>(from[i] >> 9)) + 0.5f) * 0x1p-23f;
      to[i] = uniform >= key.probability ? scale : 0.0f;
    }
    done += count;
  }
}

void split_add(const float* x, core::bf16* hi, uint16_t* lo, bool first, bool keep, bool last, int64_t n) {
  const uint32_t keep_high = !first || keep ? 0xffffffffu : 0u;
  if (first) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t old = (static_cast<uint32_t>(hi[i].bits) << 16) & keep_high;
      const float sum = __builtin_bit_cast(float, old) + x[i];
      const uint32_t u = __builtin_bit_cast(uint32_t, sum);
      hi[i].bits = static_cast<uint16_t>(u >> 16), lo[i] = static_cast<uint16_t>(u);
    }
    return;
  }
  if (last) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t old = (static_cast<uint32_t>(hi[i].bits) << 16) | lo[i];
      hi[i].bits = round_bf16(__builtin_bit_cast(float, old) + x[i]);
    }
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t old = (static_cast<uint32_t>(hi[i].bits) << 16) | lo[i];
    const uint32_t u = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, old) + x[i]);
    hi[i].bits = static_cast<uint16_t>(u >> 16), lo[i] = static_cast<uint16_t>(u);
  }
}
