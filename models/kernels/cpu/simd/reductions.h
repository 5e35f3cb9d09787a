// Kernels with sums along rows or columns: layer norm, bias gradients, dot products.

inline constexpr float layernorm_epsilon = 1e-5f;

template <class T>
void layernorm(const T* x, const T* gamma, const T* beta, T* y, float* mean_out, float* rstd_out, int64_t rows,
               int64_t C) {
  for (int64_t row = 0; row < rows; ++row, x += C, y += C) {
    const float mean = sum_over(C, [&](auto read, int64_t i) { return read.at(x + i); }) / static_cast<float>(C);
    const float squares = sum_over(C, [&](auto read, int64_t i) {
      const auto d = read.at(x + i) - mean;
      return d * d;
    });
    const float rstd = 1.0f / __builtin_sqrtf(squares / static_cast<float>(C) + layernorm_epsilon);
#pragma omp simd
    for (int64_t i = 0; i < C; ++i) {
      save(y + i, (load(x + i) - mean) * rstd * load(gamma + i) + load(beta + i));
    }
    if (mean_out != nullptr) mean_out[row] = mean, rstd_out[row] = rstd;
  }
}

// With g = gamma · dy: dx = rstd · (g - mean(g) - xhat · mean(g · xhat)).
template <class T>
void layernorm_dx(const T* x, const T* gamma, const T* dy, const float* mean, const float* rstd, const T* plus, T* dx,
                  int64_t rows, int64_t C) {
  for (int64_t row = 0; row < rows; ++row, x += C, dy += C, dx += C) {
    const float m = mean[row], r = rstd[row];
    const float sum = sum_over(C, [&](auto read, int64_t i) { return read.at(gamma + i) * read.at(dy + i); });
    const float dot_xhat = sum_over(
        C, [&](auto read, int64_t i) { return read.at(gamma + i) * read.at(dy + i) * ((read.at(x + i) - m) * r); });
    const float a = sum / static_cast<float>(C), b = dot_xhat / static_cast<float>(C);
    if (plus == nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) {
        const float xhat = (load(x + i) - m) * r;
        save(dx + i, r * (load(gamma + i) * load(dy + i) - a - xhat * b));
      }
    } else {
      const T* from = plus + row * C;
#pragma omp simd
      for (int64_t i = 0; i < C; ++i) {
        const float xhat = (load(x + i) - m) * r;
        save(dx + i, load(from + i) + r * (load(gamma + i) * load(dy + i) - a - xhat * b));
      }
    }
  }
}

// Sums over many rows: fp32 within a block of rows, double across blocks, so that the error does not grow with rows.
inline constexpr int64_t sum_block = 32;

template <class T>
void layernorm_dweights(const T* x, const T* dy, const float* mean, const float* rstd, int64_t rows, int64_t C,
                        int64_t begin, int64_t n, float* dgamma, float* dbeta) {
  double total_g[column_tile] = {}, total_b[column_tile] = {};
  for (int64_t block = 0; block < rows; block += sum_block) {
    float g[column_tile] = {}, b[column_tile] = {};
    const int64_t end = block + sum_block < rows ? block + sum_block : rows;
    for (int64_t row = block; row < end; ++row) {
      const T *xr = x + row * C + begin, *dr = dy + row * C + begin;
      const float m = mean[row], r = rstd[row];
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) {
        const float d = load(dr + i);
        g[i] += d * ((load(xr + i) - m) * r);
        b[i] += d;
      }
    }
    for (int64_t i = 0; i < n; ++i) total_g[i] += static_cast<double>(g[i]), total_b[i] += static_cast<double>(b[i]);
  }
  for (int64_t i = 0; i < n; ++i) {
    dgamma[i] = static_cast<float>(total_g[i]), dbeta[i] = static_cast<float>(total_b[i]);
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
  return sum_over(n, [&](auto read, int64_t i) { return read.at(a + i) * read.at(b + i); });
}
