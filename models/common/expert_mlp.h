// Experts in place of a layer's MLP: a router picks some for each row, and what these make, times the router's gates,
// is added up (models/experts.h). Each expert is a gated MLP (SwiGLU) or one with GELU, without biases. Gates are
// applied to the input of an expert's second product, which is linear: so backward needs no output of an expert.
//
// Logits, softmax and gates are fp32; the gradient of the logits is rounded to the compute type before it is
// multiplied. While training an expert takes `capacity` rows of a microbatch; in evaluation and decoding, all that
// choose it. It keeps the routing and, of each slot, the inputs of the nonlinearity. The router's own losses are those
// of a layer and microbatch; tensor-parallel ranks route alike, and the first of them adds these losses' gradients.
#pragma once
#include "models/bump_allocator.h"
#include "models/common/mlp.h"
#include "models/common/product.h"
#include "models/experts.h"
#include "models/kernels/experts.h"

namespace zrt::models {

class ExpertMlp final : public Mlp {
 public:
  enum class Kind : uint8_t { swiglu, gelu };
  // Products of the first expert. Those of the others lie behind, as many parameters apart as an expert has.
  struct Parts {
    size_t router = 0;       // (experts, hidden) among the parameters
    Product gate, up, down;  // of Kind::gelu there is no gate
  };
  ExpertMlp(const Experts& experts, int64_t hidden, const Parts& parts, Kind kind);

  std::vector<Linear> linears(MlpPart) const override { return {}; }
  bool routes() const override { return true; }
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
    Slots slots;
    int32_t* expert;
    float *probability, *logs, *gate;
    void *gates, *ups;  // (slots, ffn) each; of Kind::gelu no gates
  };
  struct Gradients {
    void *gates, *ups;  // (slots, ffn) each
    void* logits;       // (rows, experts)
    Slots slots;        // a copy that is there when nothing is kept any more
  };
  struct Scratch {
    void* rows;              // (slots, hidden)
    float* d_gate;           // (choices)
    std::byte* of_products;  // theirs
  };

  RoutingShape routing(const Shape& shape) const;
  int64_t capacity(const Shape& shape) const;
  ExpertProduct product(const Shape& shape, const Linear& linear, const Slots& slots) const;
  GemmSpec router_forward(const Shape& shape) const;
  Linear router_linear() const { return {.in = hidden_, .out = experts_.number, .joined = true}; }
  // All experts' matrices of one kind; `of` is the first one's product.
  ExpertWeights weights(const Call& call, const Product& of) const;
  ExpertGradients gradients(const Call& call, const Product& of) const;

  uint64_t wide_bytes(const Shape& shape) const;  // (slots, ffn)
  void lay_out_slots(Slots& slots, BumpAllocator& layout, const Shape& shape) const;
  Kept kept_in(BumpAllocator& layout, const Shape& shape) const;
  Gradients gradients_in(BumpAllocator& layout, const Shape& shape, Half half) const;
  Scratch scratch_in(BumpAllocator& layout, const Shape& shape) const;
  uint64_t scratch(const Shape& shape) const;

  // Makes what the second product reads, before gates are applied.
  void activate(const Shape& shape, const Kept& kept, void* y) const;
  void router_backward(const Call& call, const Kept& kept, const float* d_gate, void* d_logits) const;

  Experts experts_;
  int64_t hidden_;
  Parts parts_;
  Kind kind_;
};

}  // namespace zrt::models
