#include <algorithm>
#include <mutex>

#include "optimizer/exact_sum.h"
#include "optimizer/norm_kernels.h"
#include "optimizer/pieces.h"
#include "optimizer/require_arrays.h"

namespace zrt::optimizer {

const NormKernels& norm_kernels(core::Isa isa) {
  return core::choose_isa(isa, norm_kernels_v3, norm_kernels_v4);
}

void cpu::add_squares(ExactSum& sum, int64_t n, const void* data, core::DType type) {
  require_chunks("add_squares", n);
  require_float("add_squares", "array", type);
  constexpr int64_t chunk = unit_alignment;
  const auto kernel = norm_kernels(core::best_isa()).chunk_squares[static_cast<size_t>(type)];
  const size_t chunk_bytes = static_cast<size_t>(chunk) * core::dtype_size(type);
  std::mutex mutex;  // the order in which threads add does not matter: the sum is exact
  core::parallel_for(n / chunk, 1, [&](int64_t begin, int64_t end) {
    constexpr int64_t batch = 64;
    double squares[batch];
    ExactSum part;
    for (int64_t c = begin; c < end; c += batch) {
      const int64_t count = std::min(batch, end - c);
      kernel(static_cast<const std::byte*>(data) + static_cast<size_t>(c) * chunk_bytes, count, squares);
      for (int64_t i = 0; i < count; ++i) part.add(squares[i]);
    }
    std::lock_guard lock(mutex);
    sum.add(part);
  });
}

}  // namespace zrt::optimizer
