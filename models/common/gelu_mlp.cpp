#include "models/common/gelu_mlp.h"

namespace zrt::models {
namespace {

// Outside training the input of GELU is not needed any more, so GELU works in place.
void* gelu_of(const Call& call, const Mlp::Forward& forward) {
  return call.shape.mode == Mode::train ? forward.space : forward.kept;
}

}  // namespace

std::vector<Linear> GeluMlp::linears(MlpPart part) const {
  return {part == MlpPart::hidden ? in_.linear : out_.linear};
}

uint64_t GeluMlp::kept_bytes(const Shape& shape) const {
  return bytes_of_rows(shape, in_.linear.out);
}

uint64_t GeluMlp::forward_bytes(const Shape& shape) const {
  return shape.mode == Mode::train ? bytes_of_rows(shape, in_.linear.out) : 0;
}

void GeluMlp::expand(const Call& call, const Forward& forward, const void* normed) const {
  in_.linear.forward_gelu(call, in_.weight, normed, forward.kept, gelu_of(call, forward), forward.scratch);
}

void GeluMlp::project(const Call& call, const Forward& forward, void* to, const void* add) const {
  out_.linear.forward(call, out_.weight, gelu_of(call, forward), to, forward.scratch, add);
}

// hidden: the gradient of GELU's input; projection: GELU's output.
uint64_t GeluMlp::backward_bytes(const Shape& shape, MlpPart, Half) const {
  return bytes_of_rows(shape, in_.linear.out);
}

void GeluMlp::backward_projection(const Call& call, const Backward& backward, const void* d_projected) const {
  if (call.half != Half::weight) {
    out_.linear.input_gradient_gelu(call, out_.weight, d_projected, backward.kept, backward.hidden, backward.projection,
                                    backward.scratch);
  }
  if (call.half != Half::input) {
    out_.linear.weight_gradients(call, out_.weight, backward.projection, d_projected, backward.scratch);
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
