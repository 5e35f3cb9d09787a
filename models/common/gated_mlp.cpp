#include "models/common/gated_mlp.h"

#include "models/kernels/kernels.h"

namespace zrt::models {

std::vector<Linear> GatedMlp::linears(MlpPart part) const {
  if (part == MlpPart::projection) return {down_.linear};
  return {gate_.linear, up_.linear};
}

GatedMlp::Pair GatedMlp::pair_in(BumpAllocator& layout, const Shape& shape) const {
  void* const gate = layout.take(bytes_of_rows(shape, gate_.linear.out));
  return {gate, layout.take(bytes_of_rows(shape, gate_.linear.out))};
}

GatedMlp::Pair GatedMlp::pair_at(std::byte* base, const Shape& shape) const {
  BumpAllocator layout(base);
  return pair_in(layout, shape);
}

void GatedMlp::multiply(const Shape& shape, const Pair& pair, void* y) const {
  (kind_ == Gate::gelu ? geglu : swiglu)(shape.type, pair.gate, pair.up, y, elements(shape));
}

void GatedMlp::multiply_backward(const Shape& shape, const Pair& pair, const Pair& d) const {
  const auto& backward = kind_ == Gate::gelu ? geglu_backward : swiglu_backward;
  backward(shape.type, pair.gate, pair.up, d.gate, d.up, elements(shape));
}

uint64_t GatedMlp::kept_bytes(const Shape& shape) const {
  BumpAllocator layout;
  pair_in(layout, shape);
  return layout.bytes();
}

uint64_t GatedMlp::forward_bytes(const Shape& shape) const {
  return shape.mode == Mode::train ? bytes_of_rows(shape, gate_.linear.out) : 0;
}

void GatedMlp::expand(const Call& call, const Forward& forward, const void* normed) const {
  const Pair kept = pair_at(forward.kept, call.shape);
  gate_.linear.forward(call, gate_.weight, normed, kept.gate, forward.scratch);
  up_.linear.forward(call, up_.weight, normed, kept.up, forward.scratch);
}

void GatedMlp::project(const Call& call, const Forward& forward, void* to, const void* add) const {
  const Pair kept = pair_at(forward.kept, call.shape);
  // Outside training gate is not needed any more, so SwiGLU works in place.
  void* const hidden = call.shape.mode == Mode::train ? forward.space : kept.gate;
  multiply(call.shape, kept, hidden);
  down_.linear.forward(call, down_.weight, hidden, to, forward.scratch, add);
}

// hidden: gradients of gate and up; projection: SwiGLU's output. In a whole backward that lies where the gradient of
// `up` comes to lie, which is made when the output is not needed any more.
uint64_t GatedMlp::backward_bytes(const Shape& shape, MlpPart part, Half half) const {
  if (part == MlpPart::hidden) return kept_bytes(shape);
  return half == Half::both ? 0 : bytes_of_rows(shape, gate_.linear.out);
}

void GatedMlp::backward_projection(const Call& call, const Backward& backward, const void* d_projected) const {
  const bool inputs = call.half != Half::weight;
  const Pair kept = pair_at(backward.kept, call.shape), d = pair_at(backward.hidden, call.shape);
  void* const output = call.half == Half::both ? d.up : backward.projection;
  if (inputs) multiply(call.shape, kept, output);
  if (call.half != Half::input) {
    down_.linear.weight_gradients(call, down_.weight, output, d_projected, backward.scratch);
  }
  if (!inputs) return;
  down_.linear.input_gradient(call, down_.weight, d_projected, d.gate, backward.scratch);
  multiply_backward(call.shape, kept, d);
}

void GatedMlp::backward_hidden(const Call& call, const Backward& backward, const void* normed, void* d_normed) const {
  const Pair d = pair_at(backward.hidden, call.shape);
  if (call.half != Half::input) {
    gate_.linear.weight_gradients(call, gate_.weight, normed, d.gate, backward.scratch);
    up_.linear.weight_gradients(call, up_.weight, normed, d.up, backward.scratch);
  }
  if (call.half == Half::weight) return;
  gate_.linear.input_gradient(call, gate_.weight, d.gate, d_normed, backward.scratch);
  up_.linear.input_gradient(call, up_.weight, d.up, d_normed, backward.scratch);
}

}  // namespace zrt::models
