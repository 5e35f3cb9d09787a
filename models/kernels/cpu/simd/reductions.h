// Kernels with sums along rows or columns: norms, bias gradients, dot products.

// Layer norm; or RMS norm (centred = false), which subtracts no mean and has no beta.
template <class T, bool centred>
void norm(const T* x, const T* gamma, const T* beta, T* y, float* mean_out, float* rstd_out, float epsilon, float base,
          int64_t rows, int64_t C) {
  for (int64_t row = 0; row < rows; ++row, x += C, y += C) {
    float mean = 0;
    if constexpr (centred) {
      mean = sum_over(C, [&](int64_t i) { return load(x + i); }) / static_cast<float>(C);
    }
    const float squares = sum_over(C, [&](int64_t i) {
      const float d = load(x + i) - mean;
      return d * d;
    });
    const float rstd = 1.0f / __builtin_sqrtf(squares / static_cast<float>(C) + epsilon);
    if constexpr (centred) {
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) {
        save(y + i, (load(x + i) - mean) * rstd * load(gamma + i) + load(beta + i));
      }
      if (mean_out != nullptr) mean_out[row] = mean;
    } else {
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) save(y + i, load(x + i) * rstd * (base + load(gamma + i)));
    }
    if (rstd_out != nullptr) rstd_out[row] = rstd;
  }
}

// Computes, with g = (base + gamma) · dy, dx = rstd · (g - mean(g) - xhat · mean(g · xhat)), where RMS norm has no
// mean(g).
template <class T, bool centred>
void norm_dx(const T* x, const T* gamma, const T* dy, const float* mean, const float* rstd, const T* plus, T* dx,
             float base, int64_t rows, int64_t C) {
  for (int64_t row = 0; row < rows; ++row, x += C, dy += C, dx += C) {
    float m = 0, sum = 0;
    const float r = rstd[row];
    if constexpr (centred) {
      m = mean[row];
      sum = sum_over(C, [&](int64_t i) { return (base + load(gamma + i)) * load(dy + i); });
    }
    const float dot_xhat =
        sum_over(C, [&](int64_t i) { return (base + load(gamma + i)) * load(dy + i) * ((load(x + i) - m) * r); });
    const float a = sum / static_cast<float>(C), b = dot_xhat / static_cast<float>(C);
    if (plus == nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) {
        const float xhat = (load(x + i) - m) * r;
        save(dx + i, r * ((base + load(gamma + i)) * load(dy + i) - a - xhat * b));
      }
    } else {
      const T* from = plus + row * C;
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) {
        const float xhat = (load(x + i) - m) * r;
        save(dx + i, load(from + i) + r * ((base + load(gamma + i)) * load(dy + i) - a - xhat * b));
      }
    }
  }
}

// Sums over many rows: fp32 within a block of rows, double across blocks, so that the error does not grow with rows.
inline constexpr int64_t sum_block = 32;

template <class T, bool centred>
void norm_dweights(const T* x, const T* dy, const float* mean, const float* rstd, int64_t rows, int64_t C,
                   int64_t begin, int64_t n, float* dgamma, float* dbeta) {
  double total_g[column_tile] = {}, total_b[column_tile] = {};
  for (int64_t block = 0; block < rows; block += sum_block) {
    float g[column_tile] = {}, b[column_tile] = {};
    const int64_t end = block + sum_block < rows ? block + sum_block : rows;
    for (int64_t row = block; row < end; ++row) {
      const T *xr = x + row * C + begin, *dr = dy + row * C + begin;
      float m = 0;
      if constexpr (centred) m = mean[row];
      const float r = rstd[row];
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const float d = load(dr + i);
        g[i] += d * ((load(xr + i) - m) * r);
        if constexpr (centred) b[i] += d;
      }
    }
    for (int64_t i = 0; i < n; ++i) total_g[i] += static_cast<double>(g[i]), total_b[i] += static_cast<double>(b[i]);
  }
  for (int64_t i = 0; i < n; ++i) {
    dgamma[i] = static_cast<float>(total_g[i]);
    if constexpr (centred) dbeta[i] = static_cast<float>(total_b[i]);
  }
}

template <class T>
void column_sums(const T* x, int64_t rows, int64_t ld, int64_t begin, int64_t n, float* sums) {
  double total[column_tile] = {};
  for (int64_t block = 0; block < rows; block += sum_block) {
    float part[column_tile] = {};
    const int64_t end = block + sum_block < rows ? block + sum_block : rows;
    for (int64_t row = block; row < end; ++row) {
      const T* from = x + row * ld + begin;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) part[i] += load(from + i);
    }
    for (int64_t i = 0; i < n; ++i) total[i] += static_cast<double>(part[i]);
  }
  for (int64_t i = 0; i < n; ++i) sums[i] = static_cast<float>(total[i]);
}

template <class T>
float dot(const T* a, const T* b, int64_t n) {
  return sum_over(n, [&](int64_t i) { return load(a + i) * load(b + i); });
}
