#include "models/common/linear.h"

#include <algorithm>

#include "models/common/transformer_block.h"

namespace zrt::models {

GemmSpec Linear::forward_spec(const Shape& shape) const {
  const bool turned = stored == Stored::out_in;
  return {shape.rows(), out,        in,         false,      turned, in,    turned ? in : out,
          row(),        shape.type, shape.type, shape.type, bias,   false, 1};
}

GemmSpec Linear::input_spec(const Shape& shape) const {
  const bool turned = stored == Stored::in_out;
  return {shape.rows(), in,         out,        false,      turned, row(),  turned ? out : in,
          in,           shape.type, shape.type, shape.type, false,  joined, 1};
}

GemmSpec Linear::weight_spec(const Shape& shape, bool accumulate) const {
  const int64_t R = shape.rows();
  if (stored == Stored::in_out) {
    return {in, out, R, true, false, in, row(), out, shape.type, shape.type, shape.grad_type, false, accumulate, 1};
  }
  return {out, in, R, true, false, row(), in, in, shape.type, shape.type, shape.grad_type, false, accumulate, 1};
}

std::vector<GemmSpec> Linear::products(const Shape& shape) const {
  const Linear alone{in, out, stored};
  return {alone.forward_spec(shape), alone.input_spec(shape), alone.weight_spec(shape, false)};
}

uint64_t Linear::forward_scratch(const Shape& shape) const {
  return find_gemm(forward_spec(shape)).workspace_bytes();
}

uint64_t Linear::backward_scratch(const Shape& shape) const {
  return std::max(
      {find_gemm(input_spec(shape)).workspace_bytes(), find_gemm(weight_spec(shape, false)).workspace_bytes(),
       find_gemm(weight_spec(shape, true)).workspace_bytes(), bias ? bias_gradient_workspace(shape.rows(), out) : 0});
}

void Linear::forward(const Call& call, size_t weight, const void* x, void* y, std::byte* scratch) const {
  const void* added = bias ? call.weights[weight + 1] : nullptr;
  find_gemm(forward_spec(call.shape)).run(x, call.weights[weight], y, added, scratch);
}

void Linear::input_gradient(const Call& call, size_t weight, const void* dy, void* dx, std::byte* scratch) const {
  find_gemm(input_spec(call.shape)).run(dy, call.weights[weight], dx, nullptr, scratch);
}

void Linear::weight_gradients(const Call& call, size_t weight, const void* x, const void* dy,
                              std::byte* scratch) const {
  const Gemm& gemm = find_gemm(weight_spec(call.shape, call.accumulate[weight] != 0));
  const bool turned = stored == Stored::out_in;
  gemm.run(turned ? dy : x, turned ? x : dy, call.grads[weight], nullptr, scratch);
  if (bias) bias_gradient(call.shape.type, dy, call.shape.rows(), out, grad_target(call, weight + 1), scratch);
}

}  // namespace zrt::models
