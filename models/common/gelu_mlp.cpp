#include "models/common/gelu_mlp.h"

#include "core/device.h"

namespace zrt::models {

std::vector<Linear> GeluMlp::linears(MlpPart part) const {
  return {part == MlpPart::hidden ? in_.linear : out_.linear};
}

GeluMlp::Kept GeluMlp::kept_in(BumpAllocator& layout, const Shape& shape) const {
  void* const before = layout.take(bytes_of_rows(shape, in_.linear.out));
  return {before, keeps_output(shape) ? layout.take(bytes_of_rows(shape, in_.linear.out)) : nullptr};
}

GeluMlp::Kept GeluMlp::kept_at(std::byte* base, const Shape& shape) const {
  BumpAllocator layout(base);
  return kept_in(layout, shape);
}

uint64_t GeluMlp::kept_bytes(const Shape& shape) const {
  BumpAllocator layout;
  kept_in(layout, shape);
  return layout.bytes();
}

uint64_t GeluMlp::forward_bytes(const Shape& shape) const {
  return shape.mode == Mode::train && !keeps_output(shape) ? bytes_of_rows(shape, in_.linear.out) : 0;
}

void* GeluMlp::gelu_of(const Call& call, const Forward& forward) const {
  const Kept kept = kept_at(forward.kept, call.shape);
  if (kept.output != nullptr) return kept.output;
  return call.shape.mode == Mode::train ? forward.space : kept.before;
}

void GeluMlp::expand(const Call& call, const Forward& forward, const void* normed) const {
  const Kept kept = kept_at(forward.kept, call.shape);
  in_.linear.forward_gelu(call, in_.weight, normed, kept.before, gelu_of(call, forward), forward.scratch);
}

void GeluMlp::project(const Call& call, const Forward& forward, void* to, const void* add) const {
  out_.linear.forward(call, out_.weight, gelu_of(call, forward), to, forward.scratch, add);
}

// hidden: the gradient of GELU's input; projection: GELU's output, which halves hold though it is kept.
uint64_t GeluMlp::backward_bytes(const Shape& shape, MlpPart part, Half half) const {
  if (part == MlpPart::projection && half == Half::both && keeps_output(shape)) return 0;
  return bytes_of_rows(shape, in_.linear.out);
}

void GeluMlp::backward_projection(const Call& call, const Backward& backward, const void* d_projected) const {
  const bool inputs = call.half != Half::weight;
  const Kept kept = inputs ? kept_at(backward.kept, call.shape) : Kept{};
  const void* output = backward.projection;
  if (kept.output != nullptr && call.half == Half::both) output = kept.output;
  if (inputs) {
    void* const again = kept.output == nullptr ? backward.projection : nullptr;
    out_.linear.input_gradient_gelu(call, out_.weight, d_projected, kept.before, backward.hidden, again,
                                    backward.scratch);
  }
  if (call.half == Half::input && kept.output != nullptr) {
    core::copy_bytes(backward.projection, kept.output, bytes_of_rows(call.shape, in_.linear.out));
  }
  if (call.half != Half::input) {
    out_.linear.weight_gradients(call, out_.weight, output, d_projected, backward.scratch);
  }
}

void GeluMlp::backward_hidden(const Call& call, const Backward& backward, const void* normed, void* d_normed) const {
  if (call.half != Half::input) {
    in_.linear.weight_gradients(call, in_.weight, normed, backward.hidden, backward.scratch);
  }
  if (call.half != Half::weight) {
    in_.linear.input_gradient(call, in_.weight, backward.hidden, d_normed, backward.scratch);
  }
}

}  // namespace zrt::models
