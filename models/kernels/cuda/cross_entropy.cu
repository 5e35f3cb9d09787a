// Loss and gradient of rows of logits. A block has a row at a time. Where shared memory has room for one, a row is read
// once, and each part of it that has become a gradient makes room for that part of the block's next row: so reading
// goes on beside computing and writing. Elsewhere a row is read a second time for the gradient.
#include <algorithm>

#include "core/cuda/dynamic_shared.cuh"
#include "core/cuda/gpu.h"
#include "core/cuda/launch.cuh"
#include "models/kernels/cuda/logits.cuh"
#include "models/kernels/kernels.h"

namespace zrt::models::cuda {
namespace {

template <class T>
struct Args {
  T* logits;
  const int32_t* targets;
  int64_t rows, V, stride;
  float scale, inverse_cap;
  double* losses;
};

template <class T>
struct Row {
  T* at = nullptr;
  int64_t target = -1;
  Parts parts{};
  __device__ bool counts() const { return target >= 0; }
  __device__ T* main() const { return at + parts.lead; }
  __device__ int groups() const { return static_cast<int>(parts.groups); }
};

template <class T>
__device__ Row<T> row_of(const Args<T>& args, int64_t r) {
  T* at = args.logits + r * args.stride;
  return {at, args.targets[r], parts_of(at, args.V)};
}

// A row without a target.
template <class T>
__device__ void pass_over(const Args<T>& args, const Row<T>& row, int64_t r) {
  if (threadIdx.x == 0) args.losses[r] = 0;
  if (args.scale == 0) return;
  for (int64_t i = threadIdx.x; i < args.V; i += row_threads) row.at[i] = T{};
}

// Writes the loss, and the gradient of single elements; `main`: where the row's groups are read. All threads have read
// what they read of the row when the first of them writes.
template <class T>
__device__ Gradient finish_loss(const Args<T>& args, const Row<T>& row, int64_t r, const T* main) {
  const int64_t single = row.parts.single(threadIdx.x);
  const float single_x = single >= 0 ? widen(row.at[single]) : 0.0f;
  const float target_x = widen(row.at[row.target]);
  const auto [max, total] = row_sum(read_groups(main, row.groups()), single >= 0, single_x);
  if (threadIdx.x == 0) args.losses[r] = log(total) + static_cast<double>(max) - static_cast<double>(target_x);
  const Gradient g{max, static_cast<float>(1.0 / total), args.scale, row.target, target_x, args.inverse_cap};
  if (args.scale != 0 && single >= 0) row.at[single] = narrow<T>(gradient_at<T>(g, single, single_x));
  return g;
}

template <class T>
__global__ void __launch_bounds__(row_threads) cross_entropy_rows(Args<T> args) {
  const Row<T> row = row_of(args, blockIdx.x);
  if (!row.counts()) return pass_over(args, row, blockIdx.x);
  const Gradient g = finish_loss(args, row, blockIdx.x, row.main());
  if (args.scale == 0) return;
#pragma unroll 2
  for (int k = threadIdx.x; k < row.groups(); k += row_threads) {
    float x[group];
    unpack<T>(load_words(row.main() + group * k), x);
    save_gradient(g, row.main(), k, x);
  }
  save_target(g, row.parts, row.main());
}

template <class T>
__device__ void copy_group(Raw<T>* to, const T* from) {
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Raw<T>) / 16); ++i) {
    copy16_async(shared_address(to->words + i), reinterpret_cast<const uint4*>(from) + i, true);
  }
}

// A block has every gridDim.x-th row. No thread reads what another one copies, so copies need no barriers.
constexpr int kept_blocks = 2;  // of a multiprocessor: one sums while the other writes
template <class T>
__global__ void __launch_bounds__(row_threads, kept_blocks) cross_entropy_kept(Args<T> args) {
  Raw<T>* const kept = core::cuda::dynamic_shared<Raw<T>>();
  Row<T> row = row_of(args, blockIdx.x);
  if (row.counts()) {
    for (int k = threadIdx.x; k < row.groups(); k += row_threads) copy_group(kept + k, row.main() + group * k);
  }
  for (int64_t r = blockIdx.x; r < args.rows; r += gridDim.x) {
    const Row<T> next = r + gridDim.x < args.rows ? row_of(args, r + gridDim.x) : Row<T>{};
    const int copied = next.counts() ? next.groups() : 0;
    Gradient g{};
    int groups = 0;
    if (row.counts()) {
      wait_for_copies();
      g = finish_loss(args, row, r, reinterpret_cast<const T*>(kept)), groups = row.groups();
    } else {
      pass_over(args, row, r);
    }
    for (int first = threadIdx.x; first < max(groups, copied); first += row_threads * groups_at_once<T>) {
      Raw<T> raw[groups_at_once<T>];
#pragma unroll
      for (int u = 0; u < groups_at_once<T>; ++u) {
        const int k = first + u * row_threads;
        if (k < groups) raw[u] = kept[k];
      }
#pragma unroll
      for (int u = 0; u < groups_at_once<T>; ++u) {
        const int k = first + u * row_threads;
        if (k < copied) copy_group(kept + k, next.main() + group * k);
      }
#pragma unroll
      for (int u = 0; u < groups_at_once<T>; ++u) {
        const int k = first + u * row_threads;
        if (k >= groups) continue;
        float x[group];
        unpack<T>(raw[u], x);
        save_gradient(g, row.main(), k, x);
      }
    }
    if (row.counts()) save_target(g, row.parts, row.main());
    row = next;
  }
}

// The most shared memory a block can have on the device at hand, less what the kernel itself declares.
int64_t room() {
  static core::cuda::PerGpu<int64_t> bytes;
  return bytes.get([] {
    int most = 0;
    ZRT_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, core::current_gpu()));
    return int64_t{most} - 1024;
  });
}

template <class T>
void launch(const Args<T>& args) {
  const int64_t bytes = args.V / group * static_cast<int64_t>(sizeof(Raw<T>));
  if (args.scale == 0 || bytes > room()) {
    return core::cuda::launch(cross_entropy_rows<T>, static_cast<unsigned>(args.rows), row_threads, 0, args);
  }
  // Once per type and GPU, at its most: launches take what they need.
  static core::cuda::PerGpu<bool> raised;
  raised.get([] {
    ZRT_CUDA(cudaFuncSetAttribute(cross_entropy_kept<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(room())));
    return true;
  });
  const int64_t blocks = std::min<int64_t>(args.rows, int64_t{kept_blocks} * core::cuda::multiprocessors());
  core::cuda::launch(cross_entropy_kept<T>, static_cast<unsigned>(blocks), row_threads, static_cast<size_t>(bytes),
                     args);
}

// One block; the order depends on the number of rows alone.
constexpr int sum_threads = 1024;
__global__ void __launch_bounds__(sum_threads) sum_all(const double* losses, int64_t rows, double* sum) {
  __shared__ double parts[sum_threads];
  double part = 0;
  for (int64_t row = threadIdx.x; row < rows; row += sum_threads) part += losses[row];
  parts[threadIdx.x] = part;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  part = 0;
  for (int i = threadIdx.x; i < sum_threads; i += 32) part += parts[i];
  part = warp_sum(part);
  if (threadIdx.x == 0) *sum = part;
}

}  // namespace

void cross_entropy(DType type, void* logits, const int32_t* targets, int64_t rows, int64_t V, int64_t stride, float cap,
                   float gradient_scale, double* losses) {
  if (rows == 0) return;
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    launch(Args<T>{static_cast<T*>(logits), targets, rows, V, stride, gradient_scale, cap == 0 ? 0 : 1 / cap, losses});
  });
}

void sum_losses(const double* losses, int64_t rows, double* sum) {
  core::cuda::launch(sum_all, 1, sum_threads, 0, losses, rows, sum);
}

}  // namespace zrt::models::cuda
