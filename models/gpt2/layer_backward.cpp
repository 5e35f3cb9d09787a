#include <algorithm>

#include "models/gpt2/layer.h"

namespace zrt::models {

uint64_t Gpt2Layer::backward_scratch(const Shape& shape) const {
  const int64_t C = config_.hidden;
  uint64_t bytes = 0;
  for (const auto& [in, out] : {std::pair{C, 3 * C}, {C, C}, {C, 4 * C}, {4 * C, C}}) {
    bytes = std::max(bytes, find_gemm(linear_input(shape, in, out)).workspace_bytes());
    for (const bool accumulate : {false, true}) {
      bytes = std::max(bytes, find_gemm(linear_weight(shape, in, out, accumulate)).workspace_bytes());
    }
  }
  return bytes;
}

Gpt2Layer::BackwardSpace Gpt2Layer::backward_space(Layout& layout, const Shape& shape) const {
  const uint64_t row =
      static_cast<uint64_t>(shape.rows() * config_.hidden) * static_cast<uint64_t>(core::dtype_size(shape.type));
  BackwardSpace space{};
  space.scratch = layout.take<std::byte>(backward_scratch(shape));
  space.narrow = layout.take(row);
  space.wide = layout.take(4 * row);
  Layout gelu = layout.overlay(), narrow = layout.overlay(), attention = layout.overlay();
  space.gelu = gelu.take(4 * row);
  space.first = narrow.take(row);
  space.second = narrow.take(row);
  space.attention = attention.take<std::byte>(attention_backward_workspace(attention_shape(shape)));
  layout.cover(gelu);
  layout.cover(narrow);
  layout.cover(attention);
  return space;
}

uint64_t Gpt2Layer::backward_workspace_bytes(const Shape& shape) const {
  check_shape(shape);
  Layout layout;
  backward_space(layout, shape);
  return layout.bytes();
}

void Gpt2Layer::linear_gradients(const Call& call, size_t index, int64_t in, int64_t out, const void* x, const void* dy,
                                 std::byte* scratch) const {
  const Gemm& gemm = find_gemm(linear_weight(call.shape, in, out, call.accumulate[index] != 0));
  gemm.run(x, dy, call.grads[index], nullptr, scratch);
  bias_gradient(call.shape.type, dy, call.shape.rows(), out, grad(call, index + 1));
}

void Gpt2Layer::backward(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  const int64_t R = shape.rows(), C = config_.hidden;
  const DType type = shape.type;
  Layout saved(call.saved), workspace(call.workspace);
  const Kept kept = kept_in(saved, shape, true);
  const BackwardSpace space = backward_space(workspace, shape);
  const auto input_gradient = [&](size_t index, int64_t in, int64_t out, const void* dy, void* dx) {
    find_gemm(linear_input(shape, in, out)).run(dy, call.weights[index], dx, nullptr, space.scratch);
  };
  // The gradient behind a dropout site: `d` itself without dropout.
  const auto undrop = [&](const void* d, DropoutSite site, void* buffer) -> const void* {
    if (config_.dropout == 0) return d;
    apply_dropout(type, d, dropout(call, layer_dropout_site(index_, site)), first_element(call), buffer, R * C);
    return buffer;
  };

  // MLP.
  const void* d_mlp = undrop(call.d_output, DropoutSite::mlp_output, space.narrow);
  input_gradient(mlp_c_proj_weight, 4 * C, C, d_mlp, space.wide);
  gelu_backward(type, kept.fc, space.wide, space.gelu, R * 4 * C);
  linear_gradients(call, mlp_c_proj_weight, 4 * C, C, space.gelu, d_mlp, space.scratch);
  layernorm(type, kept.residual, call.weights[ln_2_weight], call.weights[ln_2_bias], space.narrow, nullptr, nullptr, R,
            C);
  linear_gradients(call, c_fc_weight, C, 4 * C, space.narrow, space.wide, space.scratch);
  input_gradient(c_fc_weight, C, 4 * C, space.wide, space.first);
  // From here on d_input holds the gradient of the residual stream between attention and MLP.
  layernorm_backward(type, kept.residual, call.weights[ln_2_weight], space.first, kept.mean_2, kept.rstd_2,
                     call.d_output, call.d_input, grad(call, ln_2_weight), grad(call, ln_2_bias), R, C);

  // Attention.
  const void* d_projection = undrop(call.d_input, DropoutSite::attention_output, space.second);
  linear_gradients(call, attn_c_proj_weight, C, C, kept.attention, d_projection, space.scratch);
  input_gradient(attn_c_proj_weight, C, C, d_projection, space.narrow);
  attention_backward(attention_shape(shape), kept.qkv, kept.lse, space.narrow, space.wide,
                     dropout(call, layer_dropout_site(index_, DropoutSite::attention)), call.first_sample,
                     space.attention);
  layernorm(type, call.input, call.weights[ln_1_weight], call.weights[ln_1_bias], space.narrow, nullptr, nullptr, R, C);
  linear_gradients(call, c_attn_weight, C, 3 * C, space.narrow, space.wide, space.scratch);
  input_gradient(c_attn_weight, C, 3 * C, space.wide, space.first);
  layernorm_backward(type, call.input, call.weights[ln_1_weight], space.first, kept.mean_1, kept.rstd_1, call.d_input,
                     call.d_input, grad(call, ln_1_weight), grad(call, ln_1_bias), R, C);
}

}  // namespace zrt::models
