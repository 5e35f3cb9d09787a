#include "models/common/gated_mlp.h"

#include "core/device.h"
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

GatedMlp::Kept GatedMlp::kept_in(BumpAllocator& layout, const Shape& shape) const {
  const Pair pair = pair_in(layout, shape);
  return {pair, keeps_output(shape) ? layout.take(bytes_of_rows(shape, gate_.linear.out)) : nullptr};
}

GatedMlp::Kept GatedMlp::kept_at(std::byte* base, const Shape& shape) const {
  BumpAllocator layout(base);
  return kept_in(layout, shape);
}

uint64_t GatedMlp::kept_bytes(const Shape& shape) const {
  BumpAllocator layout;
  kept_in(layout, shape);
  return layout.bytes();
}

uint64_t GatedMlp::forward_bytes(const Shape& shape) const {
  return shape.mode == Mode::train && !keeps_output(shape) ? bytes_of_rows(shape, gate_.linear.out) : 0;
}

void GatedMlp::expand(const Call& call, const Forward& forward, const void* normed) const {
  const Pair kept = pair_at(forward.kept, call.shape);
  gate_.linear.forward(call, gate_.weight, normed, kept.gate, forward.scratch);
  up_.linear.forward(call, up_.weight, normed, kept.up, forward.scratch);
}

void GatedMlp::project(const Call& call, const Forward& forward, void* to, const void* add) const {
  const Kept kept = kept_at(forward.kept, call.shape);
  // Outside training gate is not needed any more, so SwiGLU works in place.
  void* const not_kept = call.shape.mode == Mode::train ? forward.space : kept.pair.gate;
  void* const hidden = kept.output != nullptr ? kept.output : not_kept;
  multiply(call.shape, kept.pair, hidden);
  down_.linear.forward(call, down_.weight, hidden, to, forward.scratch, add);
}

// hidden: gradients of gate and up; projection: SwiGLU's output. In a whole backward that lies where the gradient of
// `up` comes to lie, which is made when the output is not needed any more.
uint64_t GatedMlp::backward_bytes(const Shape& shape, MlpPart part, Half half) const {
  if (part == MlpPart::hidden) {
    BumpAllocator layout;
    pair_in(layout, shape);
    return layout.bytes();
  }
  return half == Half::both ? 0 : bytes_of_rows(shape, gate_.linear.out);
}

void GatedMlp::backward_projection(const Call& call, const Backward& backward, const void* d_projected) const {
  const bool inputs = call.half != Half::weight;
  const Kept kept = inputs ? kept_at(backward.kept, call.shape) : Kept{};
  const Pair d = pair_at(backward.hidden, call.shape);
  void* output = call.half == Half::both ? d.up : backward.projection;
  if (kept.output != nullptr && call.half == Half::both) {
    output = kept.output;
  } else if (kept.output != nullptr) {
    core::copy_bytes(output, kept.output, bytes_of_rows(call.shape, gate_.linear.out));
  } else if (inputs) {
    multiply(call.shape, kept.pair, output);
  }
  if (call.half != Half::input) {
    down_.linear.weight_gradients(call, down_.weight, output, d_projected, backward.scratch);
  }
  if (!inputs) return;
  down_.linear.input_gradient(call, down_.weight, d_projected, d.gate, backward.scratch);
  multiply_backward(call.shape, kept.pair, d);
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
