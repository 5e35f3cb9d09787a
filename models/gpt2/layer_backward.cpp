#include <algorithm>

#include "models/gpt2/layer.h"

namespace zrt::models {

uint64_t Gpt2Layer::backward_scratch(const Shape& shape) const {
  uint64_t bytes = norm_.backward_scratch(shape);
  for (const Linear& linear : linears()) bytes = std::max(bytes, linear.backward_scratch(shape));
  return bytes;
}

Gpt2Layer::BackwardSpace Gpt2Layer::backward_space(BumpAllocator& layout, const Shape& shape) const {
  const uint64_t row =
      static_cast<uint64_t>(shape.rows() * sizes_.hidden) * static_cast<uint64_t>(core::dtype_size(shape.type));
  BackwardSpace space{};
  space.scratch = layout.take<std::byte>(backward_scratch(shape));
  space.narrow = layout.take(row);
  space.wide = layout.take(4 * row);
  BumpAllocator gelu = layout.overlay(), narrow = layout.overlay(), attention = layout.overlay();
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
  BumpAllocator layout;
  backward_space(layout, shape);
  return layout.bytes();
}

void Gpt2Layer::backward(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  const int64_t R = shape.rows(), C = sizes_.hidden;
  const DType type = shape.type;
  BumpAllocator workspace(call.workspace);
  const Kept kept = kept_in(call);
  const BackwardSpace space = backward_space(workspace, shape);
  // The gradient behind a dropout site: `d` itself without dropout.
  const auto undrop = [&](const void* d, DropoutSite site, void* buffer) -> const void* {
    if (sizes_.dropout == 0) return d;
    apply_dropout(type, d, dropout(call, layer_dropout_site(index_, site)), first_element(call), buffer, R * C);
    return buffer;
  };

  // MLP.
  const void* d_mlp = undrop(call.d_output, DropoutSite::mlp_output, space.narrow);
  mlp_projection_.input_gradient_gelu(call, mlp_c_proj_weight, d_mlp, kept.fc, space.wide, space.gelu, space.scratch);
  mlp_projection_.weight_gradients(call, mlp_c_proj_weight, space.gelu, d_mlp, space.scratch);
  norm_.forward(call, ln_2_weight, kept.residual, space.narrow, {});
  c_fc_.weight_gradients(call, c_fc_weight, space.narrow, space.wide, space.scratch);
  c_fc_.input_gradient(call, c_fc_weight, space.wide, space.first, space.scratch);
  // From here on d_input holds the gradient of the residual stream between attention and MLP.
  norm_.backward(call, ln_2_weight, kept.residual, space.first, kept.second_norm, call.d_output, call.d_input,
                 space.scratch);

  // Attention.
  const void* d_projection = undrop(call.d_input, DropoutSite::attention_output, space.second);
  attention_projection_.weight_gradients(call, attn_c_proj_weight, kept.attention, d_projection, space.scratch);
  attention_projection_.input_gradient(call, attn_c_proj_weight, d_projection, space.narrow, space.scratch);
  attention_backward(attention_shape(shape), kept.qkv, kept.attention, kept.lse, space.narrow, space.wide,
                     dropout(call, layer_dropout_site(index_, DropoutSite::attention)), call.first_sample,
                     space.attention);
  norm_.forward(call, ln_1_weight, call.input, space.narrow, {});
  c_attn_.weight_gradients(call, c_attn_weight, space.narrow, space.wide, space.scratch);
  c_attn_.input_gradient(call, c_attn_weight, space.wide, space.first, space.scratch);
  norm_.backward(call, ln_1_weight, call.input, space.first, kept.first_norm, call.d_input, call.d_input,
                 space.scratch);
}

}  // namespace zrt::models
