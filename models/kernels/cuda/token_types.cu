// Token types of samples, and rows of a small table added to others.
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/elementwise.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

constexpr int type_threads = 256;

// A block per sample: where its first separator is, found by all threads, and then its rows.
__global__ void __launch_bounds__(type_threads)
    types_of_sample(const int32_t* tokens, int64_t T, int32_t separator, int32_t* types) {
  __shared__ int left;  // from the first separator to the end
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * T;
  if (threadIdx.x == 0) left = 0;
  __syncthreads();
  for (int64_t t = threadIdx.x; t < T; t += type_threads) {
    if (tokens[begin + t] == separator) atomicMax(&left, static_cast<int>(T - t));
  }
  __syncthreads();
  for (int64_t t = threadIdx.x; t < T; t += type_threads) types[begin + t] = T - t < left ? 1 : 0;
}

template <class T>
struct AddRows {
  const T* table;
  const int32_t* numbers;
  T* y;
  int64_t C, groups;  // groups: of a row
};

template <class T>
__global__ void __launch_bounds__(256) add_groups(AddRows<T> args, int64_t all) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (item >= all) return;
  const int64_t row = item / args.groups, c = item % args.groups * group, left = args.C - c;
  float v[group], plus[group];
  load(args.y + row * args.C + c, left, v), load(args.table + args.numbers[row] * args.C + c, left, plus);
#pragma unroll
  for (int i = 0; i < group; ++i) v[i] += plus[i];
  save(args.y + row * args.C + c, left, v);
}

}  // namespace

void token_types(const int32_t* tokens, int64_t B, int64_t T, int32_t separator, int32_t* types) {
  core::cuda::launch(types_of_sample, static_cast<unsigned>(B), type_threads, 0, tokens, T, separator, types);
}

void add_rows(DType type, const void* table, const int32_t* numbers, int64_t rows, int64_t C, void* y) {
  const int64_t groups = (C + group - 1) / group, all = rows * groups;
  if (all == 0) return;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    const AddRows<T> args{static_cast<const T*>(table), numbers, static_cast<T*>(y), C, groups};
    core::cuda::launch(add_groups<T>, blocks_for(all, 256), 256, 0, args, all);
  });
}

}  // namespace zrt::models::cuda
