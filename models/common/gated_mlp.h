// SwiGLU: the product of two products of the input, of which one, the gate, goes through SiLU, and a third behind it
// (Shazeer, "GLU Variants Improve Transformer", 2020), as Llama has it; or GeGLU, with GELU, as Gemma has it. It keeps
// gate and up, F elements of a token each, and makes the output of SwiGLU or GeGLU again for backward; with
// Shape::keeps_outputs it keeps that, too.
#pragma once
#include "models/bump_allocator.h"
#include "models/common/mlp.h"

namespace zrt::models {

class GatedMlp final : public Mlp {
 public:
  enum class Gate : uint8_t { silu, gelu };
  GatedMlp(const Product& gate, const Product& up, const Product& down, Gate kind = Gate::silu)
      : gate_(gate), up_(up), down_(down), kind_(kind) {
    up_.linear.joined = true;  // adds its gradient of the input to gate's
  }
  std::vector<Linear> linears(MlpPart part) const override;
  uint64_t kept_bytes(const Shape& shape) const override;
  uint64_t forward_bytes(const Shape& shape) const override;
  void expand(const Call& call, const Forward& forward, const void* normed) const override;
  void project(const Call& call, const Forward& forward, void* to, const void* add) const override;
  uint64_t backward_bytes(const Shape& shape, MlpPart part, Half half) const override;
  void backward_projection(const Call& call, const Backward& backward, const void* d_projected) const override;
  void backward_hidden(const Call& call, const Backward& backward, const void* normed, void* d_normed) const override;

 private:
  // Gate and up, or their gradients.
  struct Pair {
    void *gate, *up;
  };
  // Training keeps these; `output` is null where backward makes it again.
  struct Kept {
    Pair pair;
    void* output;
  };
  Kept kept_in(BumpAllocator& layout, const Shape& shape) const;
  Kept kept_at(std::byte* base, const Shape& shape) const;
  bool keeps_output(const Shape& shape) const { return shape.mode == Mode::train && shape.keeps_outputs; }
  Pair pair_in(BumpAllocator& layout, const Shape& shape) const;
  Pair pair_at(std::byte* base, const Shape& shape) const;
  int64_t elements(const Shape& shape) const { return shape.rows() * gate_.linear.out; }

  // y = what the gate makes of `gate`, times `up`; and backward, as swiglu_backward() has it.
  void multiply(const Shape& shape, const Pair& pair, void* y) const;
  void multiply_backward(const Shape& shape, const Pair& pair, const Pair& d) const;

  Product gate_, up_, down_;
  Gate kind_;
};

}  // namespace zrt::models
