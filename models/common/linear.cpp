#include "models/common/linear.h"

#include <algorithm>

#include "models/common/transformer_block.h"

namespace zrt::models {

GemmSpec Linear::forward_spec(const Shape& shape) const {
  const bool turned = stored == Stored::out_in;
  GemmSpec spec{shape.rows(), out,        in,         false,      turned, in,    turned ? in : out,
                row(),        shape.type, shape.type, shape.type, bias,   false, 1};
  spec.fp8 = shape.fp8;
  return spec;
}

GemmSpec Linear::input_spec(const Shape& shape) const {
  const bool turned = stored == Stored::in_out;
  GemmSpec spec{shape.rows(), in,         out,        false,      turned, row(),  turned ? out : in,
                in,           shape.type, shape.type, shape.type, false,  joined, 1};
  spec.fp8 = shape.fp8;
  return spec;
}

GemmSpec Linear::weight_spec(const Shape& shape, bool accumulate) const {
  const int64_t R = shape.rows();
  const bool turned = stored == Stored::out_in;
  GemmSpec spec{turned ? out : in,
                turned ? in : out,
                R,
                true,
                false,
                turned ? row() : in,
                turned ? in : row(),
                turned ? in : out,
                shape.type,
                shape.type,
                shape.grad_type,
                false,
                accumulate,
                1};
  spec.fp8 = shape.fp8;
  return spec;
}

std::vector<GemmSpec> Linear::products(const Shape& shape) const {
  const Linear alone{in, out, stored};
  return {alone.forward_spec(shape), alone.input_spec(shape), alone.weight_spec(shape, false)};
}

GemmSpec Linear::fused_forward(const Shape& shape, bool add, Epilogue epilogue) const {
  GemmSpec spec = forward_spec(shape);
  spec.add = add, spec.epilogue = epilogue;
  return spec;
}

GemmSpec Linear::fused_input(const Shape& shape) const {
  GemmSpec spec = input_spec(shape);
  spec.epilogue = Epilogue::gelu_gradient;
  return spec;
}

bool Linear::fuses_gelu() const {
  return products_fuse() && !erf && !adapted();
}

// The library's gradient of GELU is a slow pass of its own behind products in fp8; ours makes x as well.
bool Linear::fuses_gelu_gradient(const Shape& shape) const {
  return fuses_gelu() && !shape.fp8;
}

uint64_t Linear::forward_scratch(const Shape& shape) const {
  uint64_t plain = find_gemm(forward_spec(shape)).workspace_bytes();
  if (adapted()) plain = std::max(plain, adapter.forward_scratch(shape, adapted_layer()));
  if (shared && bias) {
    GemmSpec without = forward_spec(shape);
    without.bias = false;
    plain = std::max(plain, find_gemm(without).workspace_bytes());
  }
  if (!products_fuse()) return plain;
  return std::max({plain, find_gemm(fused_forward(shape, true, Epilogue::none)).workspace_bytes(),
                   find_gemm(fused_forward(shape, false, Epilogue::gelu)).workspace_bytes()});
}

uint64_t Linear::backward_scratch(const Shape& shape) const {
  const bool fused = fuses_gelu_gradient(shape) && !joined;
  return std::max(
      {find_gemm(input_spec(shape)).workspace_bytes(), fused ? find_gemm(fused_input(shape)).workspace_bytes() : 0,
       find_gemm(weight_spec(shape, false)).workspace_bytes(), find_gemm(weight_spec(shape, true)).workspace_bytes(),
       bias ? bias_gradient_workspace(shape.rows(), out) : 0,
       adapted() ? adapter.backward_scratch(shape, adapted_layer()) : 0});
}

void Linear::forward(const Call& call, size_t weight, const void* x, void* y, std::byte* scratch,
                     const void* add) const {
  const void* b = adds_bias(call) ? call.weights[weight + 1] : nullptr;
  GemmSpec spec = fused_forward(call.shape, add != nullptr, Epilogue::none);
  spec.bias = b != nullptr;
  find_gemm(spec).run({x, call.weights[weight], y, b, add, nullptr, scratch});
  if (adapted()) adapter.forward(call, adapted_layer(), x, y, scratch);
}

void Linear::forward_gelu(const Call& call, size_t weight, const void* x, void* before, void* y,
                          std::byte* scratch) const {
  if (before == y || !fuses_gelu()) {
    forward(call, weight, x, before, scratch);
    return (erf ? gelu_erf : gelu)(call.shape.type, before, y, call.shape.rows() * out);
  }
  const void* b = bias ? call.weights[weight + 1] : nullptr;
  find_gemm(fused_forward(call.shape, false, Epilogue::gelu))
      .run({x, call.weights[weight], y, b, nullptr, before, scratch});
}

void Linear::input_gradient(const Call& call, size_t weight, const void* dy, void* dx, std::byte* scratch) const {
  find_gemm(input_spec(call.shape)).run(dy, call.weights[weight], dx, nullptr, scratch);
  if (adapted()) adapter.input_gradient(call, adapted_layer(), dy, dx, scratch);
}

void Linear::input_gradient_gelu(const Call& call, size_t weight, const void* dy, void* before, void* d, void* x,
                                 std::byte* scratch) const {
  const int64_t n = call.shape.rows() * in;
  if (fuses_gelu_gradient(call.shape)) {
    find_gemm(fused_input(call.shape)).run({dy, call.weights[weight], d, nullptr, nullptr, before, scratch});
    if (x != nullptr) gelu(call.shape.type, before, x, n);
    return;
  }
  input_gradient(call, weight, dy, d, scratch);
  (erf ? gelu_erf_backward : gelu_backward)(call.shape.type, before, d, x, n);
}

void Linear::weight_gradients(const Call& call, size_t weight, const void* x, const void* dy,
                              std::byte* scratch) const {
  if (call.grads[weight] != nullptr) {
    const Gemm& gemm = find_gemm(weight_spec(call.shape, call.accumulate[weight] != 0));
    const bool turned = stored == Stored::out_in;
    gemm.run(turned ? dy : x, turned ? x : dy, call.grads[weight], nullptr, scratch);
  }
  if (adapted()) adapter.weight_gradients(call, adapted_layer(), x, dy, scratch);
  if (!bias || call.grads[weight + 1] == nullptr) return;
  bias_gradient(call.shape.type, dy, call.shape.rows(), out, row(), grad_target(call, weight + 1), scratch);
}

}  // namespace zrt::models
