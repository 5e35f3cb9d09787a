// A norm inside a block: its parameters, its statistics and its kernels.
#pragma once
#include <string>
#include <vector>

#include "models/block.h"
#include "models/bump_allocator.h"
#include "models/kernels/kernels.h"

namespace zrt::models {

struct Norm {
  NormKind kind = NormKind::layer;
  int64_t width = 0;
  float epsilon = 1e-5f;

  // Backward needs these beside the input, one fp32 number per row each; null where they are not kept.
  struct Statistics {
    float *mean = nullptr, *rstd = nullptr;
  };
  Statistics statistics_in(BumpAllocator& layout, int64_t rows) const;

  // name.weight, and for a layer norm name.bias behind it. summed: Param::summed.
  void add_params(std::vector<Param>& params, const std::string& name, bool summed) const;

  // weight: its index among the block's parameters. x and y (rows, width).
  void forward(const Call& call, size_t weight, int64_t rows, const void* x, void* y,
               const Statistics& statistics) const;
  // sum = a + dropout(b), of which element 0 has index `first`, and y = its norm. sum may be a or b.
  void forward_of_sum(const Call& call, size_t weight, int64_t rows, const void* a, const void* b,
                      const Dropout& dropout, uint64_t first, void* sum, void* y, const Statistics& statistics) const;
  // dx = [add +] the gradient of x; dx may be dy or add. Writes the gradients of the parameters, or where `held` is not
  // null leaves them there, held_bytes() in fp32, for write_held(), which gives the same bits.
  void backward(const Call& call, size_t weight, int64_t rows, const void* x, const void* dy,
                const Statistics& statistics, const void* add, void* dx, std::byte* scratch, float* held) const;
  void write_held(const Call& call, size_t weight, const float* held) const;
  uint64_t held_bytes() const { return static_cast<uint64_t>(width) * (kind == NormKind::layer ? 8 : 4); }
  uint64_t backward_scratch(int64_t rows) const { return norm_backward_workspace(kind, rows, width); }
};

}  // namespace zrt::models
