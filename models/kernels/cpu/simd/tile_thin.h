// Products of a few rows with a matrix that is read where it lies. Included only by tile_kernels.cpp, inside its
// namespace.

// Dot products: of 16 lanes lane i sums the terms i, i + 16, …; lanes are added as a tree, then the rest one by one.
template <class T, int R>
void thin_across(const float* a, int64_t lda, const T* b, int64_t ldb, int64_t columns, int64_t depth, float* block) {
  constexpr int count = 16 / L;
  for (int64_t n = 0; n < columns; ++n, b += ldb) {
    Vector sums[R][count] = {};
    int64_t k = 0;
    for (; k + 16 <= depth; k += 16) {
#pragma GCC unroll 4
      for (int i = 0; i < count; ++i) {
        const Vector x = load(b + k + i * L);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) sums[r][i] = fused(load(a + r * lda + k + i * L), x, sums[r][i]);
      }
    }
    for (int r = 0; r < R; ++r) {
      float lane[16];
      for (int i = 0; i < count; ++i) save(lane + i * L, sums[r][i]);
      for (int step = 8; step > 0; step /= 2) {
        for (int l = 0; l < step; ++l) lane[l] += lane[l + step];
      }
      float sum = lane[0];
      // Left to the compiler, the products of this loop might be rounded by themselves.
      for (int64_t rest = k; rest < depth; ++rest) sum = __builtin_fmaf(a[r * lda + rest], core::widen(b[rest]), sum);
      block[r * thin_columns + n] = sum;
    }
  }
}

// `Depths` rows of B times elements of a, added to all columns of the sums.
template <class T, int R, int Depths>
inline void thin_rank(const float* a, int64_t lda, const T* b, int64_t ldb, int64_t columns, float* block) {
  int64_t n = 0;
  for (; n + L <= columns; n += L) {
    Vector row[Depths];
#pragma GCC unroll 4
    for (int k = 0; k < Depths; ++k) row[k] = load(b + k * ldb + n);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      Vector sum = load(block + r * thin_columns + n);
#pragma GCC unroll 4
      for (int k = 0; k < Depths; ++k) sum = fused(a[r * lda + k], row[k], sum);
      save(block + r * thin_columns + n, sum);
    }
  }
  for (; n < columns; ++n) {
    for (int r = 0; r < R; ++r) {
      float sum = block[r * thin_columns + n];
      for (int k = 0; k < Depths; ++k) sum = __builtin_fmaf(a[r * lda + k], core::widen(b[k * ldb + n]), sum);
      block[r * thin_columns + n] = sum;
    }
  }
}

template <class T, int R>
void thin_along(const float* a, int64_t lda, const T* b, int64_t ldb, int64_t columns, int64_t depth, float* block) {
  for (int64_t i = 0; i < R * thin_columns; ++i) block[i] = 0;
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4) thin_rank<T, R, 4>(a + k, lda, b + k * ldb, ldb, columns, block);
  for (; k < depth; ++k) thin_rank<T, R, 1>(a + k, lda, b + k * ldb, ldb, columns, block);
}

template <class T, int R>
void thin_blocks(const float* a, int64_t lda, const T* b, int64_t ldb, bool across, int64_t columns, int64_t depth,
                 float* sums) {
  for (int64_t i = 0; i < R * thin_columns; ++i) sums[i] = 0;
  for (int64_t k = 0; k < depth; k += tile_depth) {
    const int64_t n = depth - k < tile_depth ? depth - k : tile_depth;
    float block[R * thin_columns];
    if (across) {
      thin_across<T, R>(a + k, lda, b + k, ldb, columns, n, block);
    } else {
      thin_along<T, R>(a + k, lda, b + k * ldb, ldb, columns, n, block);
    }
    for (int64_t r = 0; r < R; ++r) {
      for (int64_t i = 0; i < columns; ++i) sums[r * thin_columns + i] += block[r * thin_columns + i];
    }
  }
}

template <class T>
void thin(const float* a, int64_t lda, const T* b, int64_t ldb, bool across, int64_t rows, int64_t columns,
          int64_t depth, float* sums) {
  switch (rows) {
    case 1:
      return thin_blocks<T, 1>(a, lda, b, ldb, across, columns, depth, sums);
    case 2:
      return thin_blocks<T, 2>(a, lda, b, ldb, across, columns, depth, sums);
    case 3:
      return thin_blocks<T, 3>(a, lda, b, ldb, across, columns, depth, sums);
    default:
      return thin_blocks<T, 4>(a, lda, b, ldb, across, columns, depth, sums);
  }
}
