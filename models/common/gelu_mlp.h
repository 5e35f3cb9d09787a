// Two products with GELU between them, as GPT-2 and BERT have it. It keeps the input of GELU, F elements of a token,
// and makes its output again for backward.
#pragma once
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
  Product in_, out_;
};

}  // namespace zrt::models
