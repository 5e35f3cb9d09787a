#include <algorithm>
#include <bit>
#include <vector>

#include "comm/cuda/reduce.h"
#include "comm/cuda/reduce_shape.h"
#include "core/cuda/gpu.h"
#include "core/cuda/launch.cuh"
#include "core/device.h"
#include "core/error.h"
#include "core/kernel_convert.h"

namespace zrt::comm::cuda {
namespace {

using core::bf16;
using core::f16;

constexpr int threads = 256;
// Enough to fill the largest GPU; each thread then takes every so-many-th group. Sums do not depend on it.
constexpr int64_t most_blocks = 2048;

template <int Most>
struct Sources {
  const void* data[Most];
  int count;
  const float* before;  // the sum of earlier sources; may be null
};

// Some adjacent elements, loaded and stored as one.
template <class T, int N>
struct alignas(sizeof(T) * N < vector_bytes ? sizeof(T) * N : vector_bytes) Pack {
  T x[N];
};

// The N elements from element i on.
template <class From, class To, int N, int Most>
__device__ void sum_pack(const Sources<Most>& sources, To* target, bool accumulate, int64_t i) {
  float sum[N];
  const auto first = *reinterpret_cast<const Pack<From, N>*>(static_cast<const From*>(sources.data[0]) + i);
#pragma unroll
  for (int k = 0; k < N; ++k) sum[k] = core::widen(first.x[k]);
  if (sources.before) {
    const auto before = *reinterpret_cast<const Pack<float, N>*>(sources.before + i);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] = before.x[k] + sum[k];
  }
#pragma unroll 4
  for (int r = 1; r < sources.count; ++r) {
    const auto next = *reinterpret_cast<const Pack<From, N>*>(static_cast<const From*>(sources.data[r]) + i);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] = sum[k] + core::widen(next.x[k]);
  }
  auto* out = reinterpret_cast<Pack<To, N>*>(target + i);
  Pack<To, N> result;
  if (accumulate) {
    result = *out;
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] = core::widen(result.x[k]) + sum[k];
  }
#pragma unroll
  for (int k = 0; k < N; ++k) core::narrow(sum[k], result.x[k]);
  if constexpr (sizeof(result) == vector_bytes) {
    *reinterpret_cast<uint4*>(out) = std::bit_cast<uint4>(result);  // 16-bit members would be stored one by one
  } else {
    *out = result;
  }
}

// The target may be one of the sources: a thread reads all of an element before it writes it, and no other touches it.
template <class From, class To, int Most>
__global__ void __launch_bounds__(threads) sum_sources(const __grid_constant__ Sources<Most> sources, To* target,
                                                       bool accumulate, ReduceShape shape, int64_t count) {
  constexpr int per_vector = vector_bytes / sizeof(From);
  const int64_t single = count - shape.vectors * per_vector, items = shape.vectors + single;
  const int64_t step = static_cast<int64_t>(gridDim.x) * threads;
  for (int64_t item = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x; item < items; item += step) {
    if (item < shape.vectors) {
      sum_pack<From, To, per_vector>(sources, target, accumulate, shape.head + item * per_vector);
      continue;
    }
    const int64_t k = item - shape.vectors;  // the heads first, then those behind the vectors
    sum_pack<From, To, 1>(sources, target, accumulate, k < shape.head ? k : k + shape.vectors * per_vector);
  }
}

template <class From, class To, int Most>
void launch(std::span<const void* const> sources, To* target, bool accumulate, int64_t count, const float* before) {
  Sources<Most> list{};
  std::copy(sources.begin(), sources.end(), list.data);
  list.count = static_cast<int>(sources.size());
  list.before = before;
  const ReduceShape shape = reduce_shape(sources, sizeof(From), target, sizeof(To), count, before);
  const int64_t items = count - shape.vectors * static_cast<int64_t>(vector_bytes / sizeof(From) - 1);
  const int64_t blocks = std::min(most_blocks, (items + threads - 1) / threads);
  core::cuda::launch(sum_sources<From, To, Most>, static_cast<unsigned>(blocks), threads, 0, list, target, accumulate,
                     shape, count);
}

template <class From, class To>
void sum(std::span<const void* const> sources, void* target, bool accumulate, int64_t count, const float* before) {
  // Few sources, the usual case, travel in few parameters.
  constexpr size_t few = 16;
  if (sources.size() <= few) {
    launch<From, To, few>(sources, static_cast<To*>(target), accumulate, count, before);
  } else {
    launch<From, To, most_sources>(sources, static_cast<To*>(target), accumulate, count, before);
  }
}

template <class From>
void sum_into(std::span<const void* const> sources, void* target, core::DType to, bool accumulate, int64_t count,
              const float* before) {
  if (to == core::DType::f32) {
    sum<From, float>(sources, target, accumulate, count, before);
  } else {
    sum<From, From>(sources, target, accumulate, count, before);
  }
}

}  // namespace

namespace {

void sum_near(std::span<const void* const> sources, core::DType from, void* target, core::DType to, bool accumulate,
              int64_t count, const float* before) {
  switch (from) {
    case core::DType::f32:
      return sum_into<float>(sources, target, to, accumulate, count, before);
    case core::DType::bf16:
      return sum_into<bf16>(sources, target, to, accumulate, count, before);
    default:  // can_reduce leaves fp16 alone
      return sum_into<f16>(sources, target, to, accumulate, count, before);
  }
}

constexpr uint64_t copied_bytes = 4 << 20;  // of each source at a time

class StreamMemory {  // of the stream's GPU, taken and freed in the stream's order
 public:
  StreamMemory(uint64_t bytes, cudaStream_t stream) : stream_(stream) {
    ZRT_CUDA(cudaMallocAsync(reinterpret_cast<void**>(&data_), bytes, stream));
  }
  ~StreamMemory() { cudaFreeAsync(data_, stream_); }
  StreamMemory(const StreamMemory&) = delete;
  StreamMemory& operator=(const StreamMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  cudaStream_t stream_;
  std::byte* data_ = nullptr;
};

// Copies the sources that the stream's GPU cannot read in place to it, piece by piece, and sums there. The driver takes
// such copies through the host.
void sum_copies(std::span<const void* const> sources, const std::vector<size_t>& far, core::DType from, void* target,
                core::DType to, bool accumulate, int64_t count, const float* before) {
  const uint64_t from_size = core::dtype_size(from), to_size = core::dtype_size(to);
  const int64_t piece = std::min<int64_t>(count, copied_bytes / from_size);
  const uint64_t stride = (static_cast<uint64_t>(piece) * from_size + 255) / 256 * 256;
  const StreamMemory copies(stride * far.size(), core::cuda::stream());
  std::vector<const void*> near(sources.size());
  for (int64_t begin = 0; begin < count; begin += piece) {
    const int64_t n = std::min(piece, count - begin);
    for (size_t i = 0; i < sources.size(); ++i) {
      near[i] = static_cast<const std::byte*>(sources[i]) + static_cast<uint64_t>(begin) * from_size;
    }
    for (size_t i = 0; i < far.size(); ++i) {
      std::byte* copy = copies.data() + i * stride;
      core::copy_bytes(copy, near[far[i]], static_cast<uint64_t>(n) * from_size);
      near[far[i]] = copy;
    }
    sum_near(near, from, static_cast<std::byte*>(target) + static_cast<uint64_t>(begin) * to_size, to, accumulate, n,
             before ? before + begin : nullptr);
  }
}

}  // namespace

void reduce(std::span<const void* const> sources, core::DType from, void* target, core::DType to, bool accumulate,
            int64_t count, const float* before) {
  if (sources.size() > most_sources) {
    throw core::CommError("a sum over more than 256 ranks on GPUs; legal are 1 to 256 ranks in one group");
  }
  if (count == 0) return;
  std::vector<size_t> far;
  for (size_t i = 0; core::cuda::unconnected() && i < sources.size(); ++i) {
    if (!core::cuda::reaches(sources[i])) far.push_back(i);
  }
  if (far.empty()) return sum_near(sources, from, target, to, accumulate, count, before);
  sum_copies(sources, far, from, target, to, accumulate, count, before);
}

}  // namespace zrt::comm::cuda
