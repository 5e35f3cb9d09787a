// Radix sort from the lowest digit of the tokens up. Each pass counts the digits of every block of rows, turns the
// counts into places (digit by digit, block by block), and moves the rows there, those of a block in order: that makes
// the sort stable and its result independent of timing.
#include <utility>

#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/dispatch.h"
#include "models/kernels/cuda/reduce.cuh"
#include "models/kernels/cuda/token_sort.h"

namespace zrt::models::cuda {
namespace {

constexpr int digit_bits = 9, digits = 1 << digit_bits;
constexpr int warps = 8, per_warp = 128, per_block = warps * per_warp;

// Rows are sorted by these keys: the number of their token among V, counted from 1; 0 for lower tokens, V + 1 for
// higher ones.
struct Keys {
  const int32_t* tokens;
  int64_t first_token, V;
  __device__ int at(int row) const {
    const int64_t v = tokens[row] - first_token;
    return static_cast<int>(v < 0 ? 0 : v < V ? v + 1 : V + 1);
  }
};

// The key of place i in an order; no order is that of positions.
struct Items {
  Keys keys;
  const int32_t* order;
  int shift;
  __device__ int row(int64_t i) const { return order == nullptr ? static_cast<int>(i) : order[i]; }
  __device__ int digit(int row) const { return (keys.at(row) >> shift) & (digits - 1); }
};

// counts[digit · blocks + block]
__global__ void __launch_bounds__(32 * warps) count_digits(Items items, int64_t rows, int32_t* counts) {
  __shared__ int32_t own[digits];
  for (int d = threadIdx.x; d < digits; d += blockDim.x) own[d] = 0;
  __syncthreads();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * per_block;
  for (int i = threadIdx.x; i < per_block && begin + i < rows; i += blockDim.x) {
    atomicAdd(&own[items.digit(items.row(begin + i))], 1);
  }
  __syncthreads();
  for (int d = threadIdx.x; d < digits; d += blockDim.x)
    counts[static_cast<int64_t>(d) * gridDim.x + blockIdx.x] = own[d];
}

// counts become the sums of all counts before them; one block of 1024 threads, with four neighbours each. n: a multiple
// of 4.
__global__ void __launch_bounds__(1024) sum_counts(int4* counts, int64_t n) {
  __shared__ int32_t sums[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int32_t before = 0;
  for (int64_t begin = 0; begin < n / 4; begin += 1024) {
    const int64_t i = begin + threadIdx.x;
    const int4 own = i < n / 4 ? counts[i] : int4{0, 0, 0, 0};
    const int32_t four = own.x + own.y + own.z + own.w;
    int32_t sum = four;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int32_t lower = __shfl_up_sync(all_lanes, sum, step);
      if (lane >= step) sum += lower;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    const int32_t total = sums[lane];
    const int32_t place = before + warp_sum(lane < warp ? total : 0) + sum - four;
    if (i < n / 4) counts[i] = {place, place + own.x, place + own.x + own.y, place + own.x + own.y + own.z};
    before += warp_sum(total);
    __syncthreads();  // before sums is written again
  }
}

__global__ void __launch_bounds__(32 * warps) move_rows(Items items, int64_t rows, const int32_t* places, int32_t* to) {
  __shared__ int32_t next[warps][digits];  // where the next row of a warp with a digit goes
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = threadIdx.x; i < warps * digits; i += blockDim.x) (&next[0][0])[i] = 0;
  __syncthreads();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * per_block + warp * per_warp;
  for (int i = lane; i < per_warp && begin + i < rows; i += 32) {
    atomicAdd(&next[warp][items.digit(items.row(begin + i))], 1);
  }
  __syncthreads();
  for (int d = threadIdx.x; d < digits; d += blockDim.x) {
    int32_t place = places[static_cast<int64_t>(d) * gridDim.x + blockIdx.x];
    for (int w = 0; w < warps; ++w) {
      const int32_t count = next[w][d];
      next[w][d] = place;
      place += count;
    }
  }
  __syncthreads();
  for (int i = lane; i < per_warp; i += 32) {
    const bool exists = begin + i < rows;
    const int row = exists ? items.row(begin + i) : 0, digit = exists ? items.digit(row) : digits;
    const unsigned same = __match_any_sync(all_lanes, digit), lower = same & ((1u << lane) - 1);
    const int32_t place = exists ? next[warp][digit] : 0;
    __syncwarp();
    if (exists) {
      to[place + __popc(lower)] = row;
      if (lower == 0) next[warp][digit] = place + __popc(same);
    }
    __syncwarp();
  }
}

// starts[v]: how many places of the order hold keys up to v.
__global__ void __launch_bounds__(256) find_starts(Keys keys, const int32_t* order, int64_t rows, int32_t* starts) {
  const int64_t v = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (v > keys.V) return;
  int64_t low = 0, high = rows;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys.at(order[middle]) <= v) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  starts[v] = static_cast<int32_t>(low);
}

}  // namespace

TokenSort token_sort_in(BumpAllocator& layout, int64_t rows, int64_t V) {
  const auto bytes = [](int64_t count) { return static_cast<uint64_t>(count) * sizeof(int32_t); };
  const int64_t blocks = (rows + per_block - 1) / per_block;
  return {layout.take<int32_t>(bytes(rows)), layout.take<int32_t>(bytes(rows)),
          layout.take<int32_t>(bytes(blocks * digits)), layout.take<int32_t>(bytes(V + 1))};
}

void sort_by_token(const int32_t* tokens, int64_t rows, int64_t first_token, int64_t V, const TokenSort& space) {
  const Keys keys{tokens, first_token, V};
  const unsigned blocks = blocks_for(rows, per_block);
  int passes = 1;
  while (((V + 1) >> (digit_bits * passes)) != 0) ++passes;
  // The last pass writes to `order`.
  int32_t *to = passes % 2 == 1 ? space.order : space.scratch, *other = passes % 2 == 1 ? space.scratch : space.order;
  const int32_t* from = nullptr;
  for (int pass = 0; pass < passes; ++pass) {
    const Items items{keys, from, digit_bits * pass};
    core::cuda::launch(count_digits, blocks, 32 * warps, 0, items, rows, space.counts);
    core::cuda::launch(sum_counts, 1, 1024, 0, reinterpret_cast<int4*>(space.counts), int64_t{blocks} * digits);
    core::cuda::launch(move_rows, blocks, 32 * warps, 0, items, rows, space.counts, to);
    from = to;
    std::swap(to, other);
  }
  core::cuda::launch(find_starts, blocks_for(V + 1, 256), 256, 0, keys, space.order, rows, space.starts);
}

}  // namespace zrt::models::cuda
