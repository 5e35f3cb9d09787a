// Experts in place of a layer's MLP, all of them on each rank: a router picks some for each row, and what these make,
// times the router's gates, is added up (models/experts.h). It keeps the routing and, of each slot, the inputs of the
// nonlinearity.
#pragma once
#include "models/common/expert_bank.h"
#include "models/common/mlp.h"
#include "models/common/router.h"

namespace zrt::models {

class ExpertMlp final : public Mlp {
 public:
  ExpertMlp(const Experts& experts, int64_t hidden, const Router& router, const ExpertBank& bank)
      : experts_(experts), hidden_(hidden), router_(router), bank_(bank) {}

  std::vector<Linear> linears(MlpPart) const override { return {}; }
  std::optional<MlpPart> routing_part() const override { return MlpPart::projection; }
  int64_t experts() const override { return experts_.number; }
  double flops(const Shape& shape, MlpPart part) const override;
  std::vector<GemmSpec> products(const Shape& shape) const override;
  uint64_t forward_scratch(const Shape& shape) const override { return scratch(shape); }
  uint64_t backward_scratch(const Shape& shape) const override { return scratch(shape); }
  uint64_t kept_bytes(const Shape& shape) const override;
  uint64_t forward_bytes(const Shape& shape) const override;
  void expand(const Call& call, const Forward& forward, const void* normed) const override;
  void project(const Call& call, const Forward& forward, void* to, const void* add) const override;
  uint64_t backward_bytes(const Shape& shape, MlpPart part, Half half) const override;
  void backward_projection(const Call& call, const Backward& backward, const void* d_projected) const override;
  void backward_hidden(const Call& call, const Backward& backward, const void* normed, void* d_normed) const override;

 private:
  struct Kept {
    Router::Tables routing;
    ExpertBank::Kept bank;
  };
  struct Gradients {
    ExpertBank::Gradients bank;
    void* logits;  // (rows, experts)
    Slots slots;   // a copy that is there when nothing is kept any more
  };
  struct Scratch {
    void* rows;              // (slots, hidden)
    float* d_gate;           // (choices)
    std::byte* of_products;  // theirs
  };
  Kept kept_in(BumpAllocator& layout, const Shape& shape) const;
  Gradients gradients_in(BumpAllocator& layout, const Shape& shape, Half half) const;
  Scratch scratch_in(BumpAllocator& layout, const Shape& shape) const;
  uint64_t scratch(const Shape& shape) const;

  Experts experts_;
  int64_t hidden_;
  Router router_;
  ExpertBank bank_;
};

}  // namespace zrt::models
