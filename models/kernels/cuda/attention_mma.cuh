// Tensor-core products on tiles in shared memory, for bf16 and fp16: mma.m16n8k16 with fp32 accumulators, ldmatrix and
// cp.async. A tile has rows of `width` elements in chunks of 16 bytes, swizzled so that eight
// consecutive rows of one chunk lie in different banks. An accumulator's thread holds, of each 16 × 8 piece, columns
// 2 · (lane % 4) and the next, of rows lane / 4 (elements 0, 1) and lane / 4 + 8 (elements 2, 3).
#pragma once
#include <cstdint>
#include <cstring>

#include "models/kernels/cuda/mma.cuh"

namespace zrt::models::cuda {

template <class Pair>
__device__ inline uint32_t bits_of(const Pair& pair) {
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

template <class E>
__device__ inline uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<E, __half>) {
    const __half2 pair = __floats2half2_rn(low, high);
    return bits_of(pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return bits_of(pair);
  }
}

template <int width>
struct SharedTile {
  static constexpr int chunks = width / 8;
  static constexpr int row_bytes = width * 2;

  static constexpr int shift = chunks % 8 == 0 ? 0 : chunks % 4 == 0 ? 1 : 2, mask = 7 >> shift;
  static_assert(chunks % 2 == 0);

  __device__ static int swizzle(int row) { return (row >> shift) & mask; }
  __device__ static uint32_t offset(int row, int chunk) {
    return static_cast<uint32_t>((row * chunks + (chunk ^ swizzle(row))) * 16);
  }
  // The offset of chunk 2 · step + odd; with a constant `step` most of it is constant, too.
  __device__ static uint32_t offset(int row, int step, int odd) {
    const int high = 2 * step / (mask + 1) * (mask + 1), low = 2 * step - high;
    return static_cast<uint32_t>(row * row_bytes + (low ^ (odd ^ swizzle(row))) * 16 + high * 16);
  }

  // Copies rows from `from`, `stride` elements apart; what lies behind `valid_rows` or `valid_width` becomes zero. A
  // thread copies one chunk of every `pass` rows; these are a multiple of eight, so that swizzling is the same for all.
  template <int rows, int threads, class E>
  __device__ static void load(uint32_t to, const E* from, int64_t stride, int valid_rows, int valid_width) {
    constexpr int pass = threads / chunks / 8 * 8;
    static_assert(rows % pass == 0);
    const int row = static_cast<int>(threadIdx.x) / chunks, chunk = static_cast<int>(threadIdx.x) % chunks;
    if (pass * chunks != threads && row >= pass) return;
    if (chunk * 8 >= valid_width) valid_rows = 0;
    to += offset(row, chunk);
    from += row * stride + chunk * 8;
#pragma unroll
    for (int begin = 0; begin < rows; begin += pass) {
      copy16_async(to + static_cast<uint32_t>(begin * row_bytes), from, row + begin < valid_rows);
      from += pass * stride;
    }
  }

  // The piece of 16 × 16 at column 16 · step of `rows` as the left operand.
  __device__ static void left(uint32_t (&r)[4], uint32_t rows, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    ldmatrix<false>(r, rows + offset(lane % 16, step, lane / 16));
  }
  // The same of the operand whose columns are rows `row` … of the tile, its rows columns 16 · step … of it.
  __device__ static void left_transposed(uint32_t (&r)[4], uint32_t tile, int row, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    ldmatrix<true>(
        r, tile + offset(lane % 8 + lane / 16 * 8, step, lane / 8 % 2) + static_cast<uint32_t>(row * row_bytes));
  }
  // Loads the right operand, of two pieces of 8 columns: r[0], r[1] and r[2], r[3]. Rows of the tile are columns of the
  // operand.
  __device__ static void right(uint32_t (&r)[4], uint32_t tile, int row, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    ldmatrix<false>(
        r, tile + offset(lane % 8 + lane / 16 * 8, step, lane / 8 % 2) + static_cast<uint32_t>(row * row_bytes));
  }
  // Loads the same where rows of the tile are rows of the operand. `row` is a multiple of 8 here and above.
  __device__ static void right_transposed(uint32_t (&r)[4], uint32_t tile, int row, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    ldmatrix<true>(r, tile + offset(lane % 16, step, lane / 16) + static_cast<uint32_t>(row * row_bytes));
  }
};

// c = rows `row` … of tile a · the transposed tile b: all columns are products of rows.
template <class E, int width, int M, int N>
__device__ inline void row_products(float (&c)[M][N][4], uint32_t a, int row, uint32_t b) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) c[m][n][0] = c[m][n][1] = c[m][n][2] = c[m][n][3] = 0;
  }
#pragma unroll
  for (int step = 0; step < width / 16; ++step) {
    uint32_t left[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
      SharedTile<width>::left(left[m], a + static_cast<uint32_t>((row + 16 * m) * (width * 2)), step);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t right[4];
      SharedTile<width>::right(right, b, 8 * n, step);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        mma<E>(c[m][n], left[m], right[0], right[1]);
        mma<E>(c[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// `value` where hidden(m, n, row, column) of the accumulator: of row in the 16 of m, of column in the 8 of n.
template <int M, int N, class Hidden>
__device__ inline void fill_where(float (&c)[M][N][4], float value, const Hidden& hidden) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (hidden(m, n, 8 * (i / 2) + lane / 4, 2 * (lane % 4) + i % 2)) c[m][n][i] = value;
      }
    }
  }
}

// An accumulator as the left operand of the next product.
template <class E, int M, int N>
__device__ inline void pack(uint32_t (&p)[M][N / 2][4], const float (&c)[M][N][4]) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      p[m][n / 2][0] = pack<E>(c[m][n][0], c[m][n][1]);
      p[m][n / 2][1] = pack<E>(c[m][n][2], c[m][n][3]);
      p[m][n / 2][2] = pack<E>(c[m][n + 1][0], c[m][n + 1][1]);
      p[m][n / 2][3] = pack<E>(c[m][n + 1][2], c[m][n + 1][3]);
    }
  }
}

// c += p · tile b, whose rows are the columns of p.
template <class E, int width, int M, int K>
__device__ inline void accumulate(float (&c)[M][width / 8][4], const uint32_t (&p)[M][K][4], uint32_t b) {
#pragma unroll
  for (int step = 0; step < K; ++step) {
#pragma unroll
    for (int n = 0; n < width / 8; n += 2) {
      uint32_t right[4];
      SharedTile<width>::right_transposed(right, b, 16 * step, n / 2);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        mma<E>(c[m][n], p[m][step], right[0], right[1]);
        mma<E>(c[m][n + 1], p[m][step], right[2], right[3]);
      }
    }
  }
}

// Writes a warp's accumulator, times a factor per row (two of every 16), to rows of memory, by way of rows `row` … of
// a tile that only this warp still uses. place(r): where row r goes, or null.
template <class E, class Tile, int M, class Place>
__device__ inline void store_rows(const float (&c)[M][Tile::chunks][4], const float (&factor)[M][2], std::byte* tile,
                                  int row, int valid_width, const Place& place) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncwarp();
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < Tile::chunks; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t at = Tile::offset(row + 16 * m + 8 * half + lane / 4, n) + static_cast<uint32_t>(lane % 4 * 4);
        *reinterpret_cast<uint32_t*>(tile + at) =
            pack<E>(c[m][n][2 * half] * factor[m][half], c[m][n][2 * half + 1] * factor[m][half]);
      }
    }
  }
  __syncwarp();
#pragma unroll 4
  for (int i = lane; i < 16 * M * Tile::chunks; i += 32) {
    const int r = i / Tile::chunks, chunk = i % Tile::chunks;
    E* const to = place(r);
    if (to != nullptr && chunk * 8 < valid_width) {
      *reinterpret_cast<uint4*>(to + chunk * 8) = *reinterpret_cast<const uint4*>(tile + Tile::offset(row + r, chunk));
    }
  }
}

}  // namespace zrt::models::cuda
