#include "comm/reduce.h"

#include <algorithm>

#include "comm/cpu/stream_copy.h"
#include "comm/reduce_kernels.h"

namespace zrt::comm {
namespace {

// Elements summed at a time: 4 KiB of fp32 sums and a piece of one source fit the first-level cache.
constexpr int64_t piece = 1024;
// fp32 results of this many elements or more bypass the cache (measured: +30 %; rounding to 16 bits takes longer than
// the stores, so those results gain nothing). In place the target's lines are cached already.
constexpr int64_t stream_elements = 1 << 18;

const std::byte* advance(const void* data, int64_t count, size_t size) {
  return static_cast<const std::byte*>(data) + static_cast<size_t>(count) * size;
}

}  // namespace

bool can_reduce(core::DType from, core::DType to) {
  using core::DType;
  const bool number = from == DType::f32 || from == DType::bf16 || from == DType::f16;
  return number && (to == from || to == DType::f32);
}

void reduce(std::span<const void* const> sources, core::DType from, void* target, core::DType to, bool accumulate,
            int64_t count, core::Isa isa, const float* before) {
  const ReduceKernels& kernels = core::choose_isa(isa, reduce_kernels_v3, reduce_kernels_v4);
  const size_t from_index = static_cast<size_t>(from), to_index = static_cast<size_t>(to);
  const size_t from_size = core::dtype_size(from), to_size = core::dtype_size(to);
  alignas(64) float sum[piece];
  const bool in_place = std::find(sources.begin(), sources.end(), target) != sources.end();
  const bool stream = to == core::DType::f32 && !in_place && !accumulate && count >= stream_elements;
  for (int64_t begin = 0; begin < count; begin += piece) {
    const int64_t n = std::min(piece, count - begin);
    if (before) {
      kernels.load[static_cast<size_t>(core::DType::f32)](sum, before + begin, n);
    } else {
      kernels.load[from_index](sum, advance(sources[0], begin, from_size), n);
    }
    for (const void* source : sources.subspan(before ? 0 : 1)) {
      kernels.add[from_index](sum, advance(source, begin, from_size), n);
    }
    void* out = static_cast<std::byte*>(target) + static_cast<size_t>(begin) * to_size;
    if (accumulate && to == core::DType::f32) {
      kernels.accumulate(static_cast<float*>(out), sum, n);
    } else if (accumulate) {
      kernels.add[to_index](sum, out, n);
      kernels.store[to_index](out, sum, n);
    } else if (stream) {
      stream_copy(out, sum, static_cast<size_t>(n) * to_size);
    } else {
      kernels.store[to_index](out, sum, n);
    }
  }
}

}  // namespace zrt::comm
