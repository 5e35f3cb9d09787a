// The low-rank adapter of a linear layer: y += s · (x Aᵀ) Bᵀ, with A (rank, in) and B (out, rank) among the block's
// parameters and s Adapters::scale(). What it makes between its products, s · x Aᵀ, is made again for backward. Ranks
// that share the layer have parts of A or B as they have parts of its inputs or outputs, and all of the other one.
#pragma once
#include <cstddef>
#include <cstdint>

#include "models/block.h"
#include "models/kernels/gemm.h"
#include "models/kernels/kernels.h"

namespace zrt::models {

struct LowRank {
  int64_t rank = 0;  // 0: there is none
  float scale = 1, dropout = 0;
  uint32_t site = 0;        // of dropout
  size_t down = 0, up = 0;  // A and B among the block's parameters

  // The layer that it belongs to, as a rank has it.
  struct Of {
    int64_t in, out, stride;  // stride: elements from row to row of y and dy
    bool shared;              // ranks have parts of its inputs
  };
  uint64_t forward_scratch(const Shape& shape, const Of& of) const;
  uint64_t backward_scratch(const Shape& shape, const Of& of) const;
  double flops(const Shape& shape, const Of& of) const;  // of a forward, multiply-add

  void forward(const Call& call, const Of& of, const void* x, void* y, std::byte* scratch) const;           // y += …
  void input_gradient(const Call& call, const Of& of, const void* dy, void* dx, std::byte* scratch) const;  // dx += …
  void weight_gradients(const Call& call, const Of& of, const void* x, const void* dy, std::byte* scratch) const;

 private:
  struct Space {
    std::byte* products;
    void *low, *d_low;  // (rows, rank) each
    void* input;        // (rows, in), behind dropout; null without
  };
  Space forward_space(class BumpAllocator& layout, const Shape& shape, const Of& of) const;
  Space backward_space(class BumpAllocator& layout, const Shape& shape, const Of& of) const;
  bool drops(const Shape& shape) const { return dropout > 0 && shape.mode == Mode::train; }
  Dropout dropped(const Call& call, const Of& of) const;
  uint64_t first_element(const Call& call, const Of& of) const;
  const void* dropped_input(const Call& call, const Of& of, const void* x, void* to) const;

  GemmSpec down_spec(const Shape& shape, const Of& of) const;
  GemmSpec up_spec(const Shape& shape, const Of& of) const;
  GemmSpec d_down_spec(const Shape& shape, const Of& of) const;
  GemmSpec d_input_spec(const Shape& shape, const Of& of) const;
  GemmSpec down_gradient_spec(const Shape& shape, const Of& of, bool accumulate) const;
  GemmSpec up_gradient_spec(const Shape& shape, const Of& of, bool accumulate) const;
};

}  // namespace zrt::models
