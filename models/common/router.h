// The router of a layer's experts: it picks some for each row, gives each pick a slot and a gate (models/experts.h).
// Logits, softmax and gates are fp32; the gradient of the logits is rounded to the compute type before it is
// multiplied. While training an expert takes `capacity` rows of a microbatch; in evaluation and decoding, all that
// choose it. The router's own losses are those of a layer, microbatch and data-parallel rank; tensor-parallel ranks
// route alike, and the first of them adds these losses' gradients.
#pragma once
#include "models/bump_allocator.h"
#include "models/common/product.h"
#include "models/experts.h"
#include "models/kernels/experts.h"

namespace zrt::models {

class Router {
 public:
  // `weight`: of (experts, hidden), among the block's parameters. `ranks`, which divide the experts, have as many each;
  // with several of them slots are a message to these.
  Router(const Experts& experts, int64_t hidden, size_t weight, int ranks = 1)
      : experts_(experts), hidden_(hidden), weight_(weight), ranks_(ranks) {}

  struct Tables {
    Slots slots;
    int32_t* expert;                   // (choices)
    float *probability, *logs, *gate;  // as route() leaves them
  };
  RoutingShape shape(const Shape& shape) const;
  int64_t capacity(const Shape& shape) const;  // rows of a microbatch that an expert takes; 0: all
  double flops(const Shape& shape) const {
    return 2 * static_cast<double>(shape.rows() * hidden_) * static_cast<double>(experts_.number);
  }
  std::vector<GemmSpec> products(const Shape& shape) const {
    return Linear{.in = hidden_, .out = experts_.number}.products(shape);
  }
  uint64_t scratch(const Shape& shape) const;  // bytes, for any call

  Tables tables_in(BumpAllocator& layout, const Shape& shape) const;
  void forward(const Call& call, const void* normed, const Tables& tables, std::byte* scratch) const;
  // Makes the gradient of logits (rows, experts) from that of gates, and tells what the router did.
  void logits_gradient(const Call& call, const Tables& tables, const float* d_gate, void* d_logits) const;
  void weight_gradient(const Call& call, const void* normed, const void* d_logits, std::byte* scratch) const {
    linear().weight_gradients(call, weight_, normed, d_logits, scratch);
  }
  // Adds to d_normed.
  void input_gradient(const Call& call, const void* d_logits, void* d_normed, std::byte* scratch) const {
    linear().input_gradient(call, weight_, d_logits, d_normed, scratch);
  }

 private:
  GemmSpec forward_spec(const Shape& shape) const;
  Linear linear() const { return {.in = hidden_, .out = experts_.number, .joined = true}; }

  Experts experts_;
  int64_t hidden_;
  size_t weight_;
  int ranks_;
};

// Lays out what products with slots read: choice, starts and counts.
void lay_out_slots(Slots& slots, BumpAllocator& layout, const RoutingShape& shape);
void copy_slots(const Slots& from, const Slots& to, const RoutingShape& shape);  // at core::place()

}  // namespace zrt::models
