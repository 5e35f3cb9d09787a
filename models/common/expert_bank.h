// The experts that a rank has, each an MLP without biases: gated (SwiGLU), or one with GELU. They compute rows that lie
// in slots (kernels/experts.h), one expert's behind the other's. Gates are applied to the input of an expert's second
// product, which is linear: so backward needs no output of an expert.
//
// A `RoutingShape` here has these experts alone.
#pragma once
#include "models/bump_allocator.h"
#include "models/common/product.h"
#include "models/kernels/experts.h"

namespace zrt::models {

class ExpertBank {
 public:
  enum class Kind : uint8_t { swiglu, gelu };
  // Products of the first expert. Those of the others lie behind, as many parameters apart as an expert has.
  struct Parts {
    Product gate, up, down;  // of Kind::gelu there is no gate
  };
  ExpertBank(int64_t hidden, const Parts& parts, Kind kind) : hidden_(hidden), parts_(parts), kind_(kind) {}

  int64_t width() const { return parts_.down.linear.in; }
  double flops(double rows, bool projection) const;
  // Products with weights of one forward and backward, where the experts get equal shares of so many rows.
  std::vector<GemmSpec> products(const Shape& shape, int64_t experts, int64_t rows) const;
  uint64_t wide_bytes(const Shape& shape, const RoutingShape& routed) const;  // (slots, width)
  uint64_t row_bytes(const Shape& shape, const RoutingShape& routed) const;   // (slots, hidden)
  uint64_t scratch(const Shape& shape, const RoutingShape& routed) const;     // of products

  struct Kept {
    void *gates, *ups;  // (slots, width) each: inputs of the nonlinearity; of Kind::gelu no gates
  };
  Kept kept_in(BumpAllocator& layout, const Shape& shape, const RoutingShape& routed) const;
  struct Gradients {
    void *gates, *ups;  // (slots, width) each
  };
  Gradients gradients_in(BumpAllocator& layout, const Shape& shape, const RoutingShape& routed) const;

  // Calls share these slots and this scratch of products.
  struct Rows {
    RoutingShape routed;
    Slots slots;
    std::byte* scratch;
  };
  void expand(const Call& call, const Rows& rows, const void* x, const Kept& kept) const;
  // y (slots, hidden); `activated` (slots, width) may be one of those kept.
  void project(const Call& call, const Rows& rows, const Kept& kept, const float* gate, void* activated, void* y) const;
  // Makes from dy (slots, hidden): `activated`, the input of the second product, which may be d.ups; d_gate by choice;
  // and with inputs d. In the weight half `activated` and d are read.
  void backward_projection(const Call& call, const Rows& rows, const Kept& kept, const float* gate, const void* dy,
                           const Gradients& d, void* activated, float* d_gate) const;
  void weight_gradients(const Call& call, const Rows& rows, const void* x, const Gradients& d) const;
  void input_gradient(const Call& call, const Rows& rows, const Gradients& d, void* dx) const;

 private:
  ExpertProduct product(const Shape& shape, const Linear& linear, const RoutingShape& routed, const Slots& slots) const;
  // All experts' matrices of one kind; `of` is the first one's product.
  ExpertWeights weights(const Call& call, const Product& of) const;
  ExpertGradients gradients(const Call& call, const Product& of) const;
  void activate(const Shape& shape, const RoutingShape& routed, const Kept& kept, void* y) const;
  bool gated() const { return kind_ == Kind::swiglu; }
  void* d_up(const Gradients& d) const { return gated() ? d.ups : d.gates; }

  int64_t hidden_;
  Parts parts_;
  Kind kind_;
};

}  // namespace zrt::models
