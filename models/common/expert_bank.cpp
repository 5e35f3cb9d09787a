#include "models/common/expert_bank.h"

#include <algorithm>

namespace zrt::models {

ExpertProduct ExpertBank::product(const Shape& shape, const Linear& linear, const RoutingShape& routed,
                                  const Slots& slots) const {
  return {routed.experts, routed.slots(),  linear.in,    linear.out,
          shape.type,     shape.grad_type, slots.starts, slots.counts};
}

ExpertWeights ExpertBank::weights(const Call& call, const Product& of) const {
  return {call.weights, of.weight, gated() ? 3u : 2u};
}

ExpertGradients ExpertBank::gradients(const Call& call, const Product& of) const {
  return {call.grads, call.accumulate, call.shape.grad_type, of.weight, gated() ? 3u : 2u};
}

double ExpertBank::flops(double rows, bool projection) const {
  const double one = 2 * rows * static_cast<double>(hidden_) * static_cast<double>(width());
  return projection || !gated() ? one : 2 * one;
}

std::vector<GemmSpec> ExpertBank::products(const Shape& shape, int64_t experts, int64_t rows) const {
  std::vector<GemmSpec> all;
  for (int64_t e = 0; e < experts; ++e) {
    Shape share = shape;
    share.B = 1, share.mode = Mode::eval, share.T = rows * (e + 1) / experts - rows * e / experts;
    if (share.T == 0) continue;
    for (const Product* of : {&parts_.gate, &parts_.up, &parts_.down}) {
      if (of == &parts_.gate && !gated()) continue;
      for (const GemmSpec& spec : of->linear.products(share)) all.push_back(spec);
    }
  }
  return all;
}

uint64_t ExpertBank::wide_bytes(const Shape& shape, const RoutingShape& routed) const {
  return static_cast<uint64_t>(routed.slots() * width()) * core::dtype_size(shape.type);
}

uint64_t ExpertBank::row_bytes(const Shape& shape, const RoutingShape& routed) const {
  return static_cast<uint64_t>(routed.slots() * hidden_) * core::dtype_size(shape.type);
}

uint64_t ExpertBank::scratch(const Shape& shape, const RoutingShape& routed) const {
  uint64_t bytes = 0;
  for (const Linear& linear : {parts_.up.linear, parts_.down.linear}) {
    bytes = std::max(bytes, experts_workspace(product(shape, linear, routed, {})));
  }
  return bytes;
}

ExpertBank::Kept ExpertBank::kept_in(BumpAllocator& layout, const Shape& shape, const RoutingShape& routed) const {
  Kept kept{};
  if (gated()) kept.gates = layout.take(wide_bytes(shape, routed));
  kept.ups = layout.take(wide_bytes(shape, routed));
  return kept;
}

ExpertBank::Gradients ExpertBank::gradients_in(BumpAllocator& layout, const Shape& shape,
                                               const RoutingShape& routed) const {
  Gradients d{};
  d.gates = layout.take(wide_bytes(shape, routed)), d.ups = layout.take(wide_bytes(shape, routed));
  return d;
}

// Makes what the second product reads, before gates are applied.
void ExpertBank::activate(const Shape& shape, const RoutingShape& routed, const Kept& kept, void* y) const {
  const int64_t n = routed.slots() * width();
  if (gated()) return swiglu(shape.type, kept.gates, kept.ups, y, n);
  gelu(shape.type, kept.ups, y, n);
}

void ExpertBank::expand(const Call& call, const Rows& rows, const void* x, const Kept& kept) const {
  const auto multiply = [&](const Product& of, void* y) {
    experts_forward(product(call.shape, of.linear, rows.routed, rows.slots), x, weights(call, of), y, rows.scratch);
  };
  if (gated()) multiply(parts_.gate, kept.gates);
  multiply(parts_.up, kept.ups);
}

void ExpertBank::project(const Call& call, const Rows& rows, const Kept& kept, const float* gate, void* activated,
                         void* y) const {
  activate(call.shape, rows.routed, kept, activated);
  apply_gates(call.shape.type, rows.routed, rows.slots.choice, gate, width(), activated);
  experts_forward(product(call.shape, parts_.down.linear, rows.routed, rows.slots), activated,
                  weights(call, parts_.down), y, rows.scratch);
}

void ExpertBank::backward_projection(const Call& call, const Rows& rows, const Kept& kept, const float* gate,
                                     const void* dy, const Gradients& d, void* activated, float* d_gate) const {
  const Shape& shape = call.shape;
  const bool inputs = call.half != Half::weight;
  const ExpertProduct down = product(shape, parts_.down.linear, rows.routed, rows.slots);
  if (inputs) {
    experts_input_gradient(down, dy, weights(call, parts_.down), false, d.gates, rows.scratch);
    activate(shape, rows.routed, kept, activated);
    apply_gates_backward(shape.type, rows.routed, rows.slots.choice, gate, width(), activated, d.gates, d_gate);
  }
  if (call.half != Half::input) {
    experts_weight_gradients(down, activated, dy, gradients(call, parts_.down), rows.scratch);
  }
  if (!inputs) return;
  const int64_t n = rows.routed.slots() * width();
  if (gated()) return swiglu_backward(shape.type, kept.gates, kept.ups, d.gates, d.ups, n);
  gelu_backward(shape.type, kept.ups, d.gates, nullptr, n);
}

void ExpertBank::weight_gradients(const Call& call, const Rows& rows, const void* x, const Gradients& d) const {
  const auto add = [&](const Product& of, const void* dy) {
    experts_weight_gradients(product(call.shape, of.linear, rows.routed, rows.slots), x, dy, gradients(call, of),
                             rows.scratch);
  };
  if (gated()) add(parts_.gate, d.gates);
  add(parts_.up, d_up(d));
}

void ExpertBank::input_gradient(const Call& call, const Rows& rows, const Gradients& d, void* dx) const {
  const auto back = [&](const Product& of, const void* dy, bool adds) {
    experts_input_gradient(product(call.shape, of.linear, rows.routed, rows.slots), dy, weights(call, of), adds, dx,
                           rows.scratch);
  };
  if (gated()) back(parts_.gate, d.gates, false);
  back(parts_.up, d_up(d), gated());
}

}  // namespace zrt::models
