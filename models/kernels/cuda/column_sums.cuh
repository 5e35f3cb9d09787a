// Sums over the rows of a matrix of what a Term makes of its elements, part by part of the rows.
//   struct Term { static constexpr int sums, at_once; struct Inputs; Inputs load(int64_t row, int64_t c, int64_t left)
//   const; void add(const Inputs&, float (&total)[sums][group]) const; };
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/vector_io.cuh"

namespace zrt::models::cuda {

// A block: 32 groups of columns times 8 rows at a time. Four blocks on each of a large GPU's 132 multiprocessors run at
// once, each thread with Term::at_once rows on their way.
inline constexpr int64_t column_block = 32 * group, row_block = 8, least_rows = 32;
inline constexpr int column_blocks = 4, wanted_blocks = 132 * column_blocks;

// The number of parts that the rows are cut into, which depends on the sizes alone.
inline int64_t row_parts(int64_t rows, int64_t n) {
  const int64_t across = std::max<int64_t>(1, (n + column_block - 1) / column_block);
  return std::clamp<int64_t>(wanted_blocks / across, 1, std::max<int64_t>(1, (rows + least_rows - 1) / least_rows));
}

// partials[(part · sums + s) · n + c]: sum s of column c over the rows of the part.
template <class Term>
__global__ void __launch_bounds__(256, column_blocks) column_sums(Term term, int64_t rows, int64_t n, float* partials) {
  constexpr int sums = Term::sums;
  __shared__ float shared[row_block][column_block];
  const int64_t c = blockIdx.x * column_block + threadIdx.x * group, parts = gridDim.y, part = blockIdx.y;
  const int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
  float total[sums][group] = {};
  if (c < n) {
    for (int64_t row = begin + threadIdx.y; row < end; row += Term::at_once * row_block) {
      typename Term::Inputs in[Term::at_once];
#pragma unroll
      for (int u = 0; u < Term::at_once; ++u) {
        if (row + u * row_block < end) in[u] = term.load(row + u * row_block, c, n - c);
      }
#pragma unroll
      for (int u = 0; u < Term::at_once; ++u) {
        if (row + u * row_block < end) term.add(in[u], total);
      }
    }
  }
#pragma unroll
  for (int s = 0; s < sums; ++s) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < group; ++i) shared[threadIdx.y][i * 32 + threadIdx.x] = total[s][i];
    __syncthreads();
    const int thread = threadIdx.y * 32 + threadIdx.x, place = thread % group * 32 + thread / group;
    float sum = 0;
    for (int slice = 0; slice < row_block; ++slice) sum += shared[slice][place];
    const int64_t column = blockIdx.x * column_block + thread;
    if (column < n) partials[(part * sums + s) * n + column] = sum;
  }
}

template <class Term>
void run_column_sums(const Term& term, int64_t rows, int64_t n, float* partials) {
  const dim3 grid(blocks_for(n, column_block), static_cast<unsigned>(row_parts(rows, n)));
  const dim3 block(32, static_cast<unsigned>(row_block));
  core::cuda::launch(column_sums<Term>, grid, block, 0, term, rows, n, partials);
}

}  // namespace zrt::models::cuda
