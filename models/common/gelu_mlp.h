// Two products with GELU between them, as GPT-2 and BERT have it. It keeps the input of GELU, F elements of a token,
// and makes its output again for backward; with Shape::keeps_outputs it keeps both. A product that applies GELU rounds
// once where a pass over its input rounds twice: such an output is kept always, so that all backwards read the same.
#pragma once
#include "models/bump_allocator.h"
#include "models/common/mlp.h"

namespace zrt::models {

class GeluMlp final : public Mlp {
 public:
  GeluMlp(const Product& in, const Product& out) : in_(in), out_(out) {}
  std::vector<Linear> linears(MlpPart part) const override;
  uint64_t kept_bytes(const Shape& shape) const override;
  uint64_t forward_bytes(const Shape& shape) const override;
  bool reads_late() const override { return in_.linear.fuses_gelu(); }
  void expand(const Call& call, const Forward& forward, const void* normed) const override;
  void project(const Call& call, const Forward& forward, void* to, const void* add) const override;
  uint64_t backward_bytes(const Shape& shape, MlpPart part, Half half) const override;
  void backward_projection(const Call& call, const Backward& backward, const void* d_projected) const override;
  void backward_hidden(const Call& call, const Backward& backward, const void* normed, void* d_normed) const override;

 private:
  // Holds what lies before GELU and behind it; `output` is null where it is made again.
  struct Kept {
    void *before, *output;
  };
  Kept kept_in(BumpAllocator& layout, const Shape& shape) const;
  Kept kept_at(std::byte* base, const Shape& shape) const;
  bool keeps_output(const Shape& shape) const {
    return shape.mode == Mode::train && (shape.keeps_outputs || in_.linear.fuses_gelu());
  }
  // Forward: GELU's output. Outside training its input is not needed any more, so GELU works in place.
  void* gelu_of(const Call& call, const Forward& forward) const;

  Product in_, out_;
};

}  // namespace zrt::models
