// A linear layer y = x W [+ b] [+ its adapter's part] inside a block: its matrix products.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/block.h"
#include "models/common/low_rank.h"
#include "models/kernels/gemm.h"

namespace zrt::models {

struct Linear {
  // Weights lie in memory as in GPT-2's Conv1D or as in torch.nn.Linear.
  enum class Stored : uint8_t { in_out, out_in };

  int64_t in = 0, out = 0;
  Stored stored = Stored::out_in;
  bool bias = false;
  int64_t stride = 0;   // elements from row to row of y and dy; 0: out
  bool joined = false;  // the gradient of its input is added to what another layer of the same input wrote
  // Ranks have parts of its input, and their products are parts of a sum: the first one's with bias.
  bool shared = false;
  bool erf = false;  // GELU in front of it or behind it is by the error function, which products do not apply
  LowRank adapter = {};

  GemmSpec forward_spec(const Shape& shape) const;
  GemmSpec input_spec(const Shape& shape) const;
  GemmSpec weight_spec(const Shape& shape, bool accumulate) const;
  // True where forward_gelu is one product, if y is not `before`.
  bool fuses_gelu() const;
  std::vector<GemmSpec> products(const Shape& shape) const;  // one of each, alone: no bias, dense, not joined
  double flops(const Shape& shape) const {                   // of a forward, multiply-add
    return 2 * static_cast<double>(shape.rows()) * static_cast<double>(in) * static_cast<double>(out) +
           (adapted() ? adapter.flops(shape, adapted_layer()) : 0);
  }

  // Workspace of the products of a pass.
  uint64_t forward_scratch(const Shape& shape) const;
  uint64_t backward_scratch(const Shape& shape) const;

  // weight: its index among the block's parameters; the bias lies behind it. add: (rows, out) like y, perhaps y; null:
  // nothing is added.
  void forward(const Call& call, size_t weight, const void* x, void* y, std::byte* scratch,
               const void* add = nullptr) const;
  // before = x W [+ b] and y = gelu(before). before may be y: then only y is left.
  void forward_gelu(const Call& call, size_t weight, const void* x, void* before, void* y, std::byte* scratch) const;
  void input_gradient(const Call& call, size_t weight, const void* dy, void* dx, std::byte* scratch) const;
  // Makes, for x = gelu(before): d = the gradient of `before`, and x again, which may be null: then nobody needs it.
  void input_gradient_gelu(const Call& call, size_t weight, const void* dy, void* before, void* d, void* x,
                           std::byte* scratch) const;
  void weight_gradients(const Call& call, size_t weight, const void* x, const void* dy, std::byte* scratch) const;

 private:
  GemmSpec fused_forward(const Shape& shape, bool add, Epilogue epilogue) const;
  bool adds_bias(const Call& call) const { return bias && (!shared || call.tensor_rank == 0); }
  GemmSpec fused_input(const Shape& shape) const;
  bool fuses_gelu_gradient(const Shape& shape) const;
  int64_t row() const { return stride == 0 ? out : stride; }
  bool adapted() const { return adapter.rank > 0; }
  LowRank::Of adapted_layer() const { return {in, out, row(), shared}; }
};

}  // namespace zrt::models
