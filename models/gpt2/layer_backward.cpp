#include <algorithm>

#include "core/device.h"
#include "models/gpt2/layer.h"

namespace zrt::models {

uint64_t Gpt2Layer::backward_scratch(const Shape& shape) const {
  uint64_t bytes = norm_.backward_scratch(shape);
  for (const Linear& linear : linears()) bytes = std::max(bytes, linear.backward_scratch(shape));
  return bytes;
}

Gpt2Layer::BackwardSpace Gpt2Layer::backward_space(BumpAllocator& layout, const Shape& shape) const {
  const uint64_t row = bytes(shape, sizes_.hidden);
  BackwardSpace space{};
  space.scratch = layout.take<std::byte>(backward_scratch(shape));
  space.narrow = layout.take(row);
  space.wide = layout.take(bytes(shape, std::max(ffn_, 3 * attended_)));
  BumpAllocator gelu = layout.overlay(), narrow = layout.overlay(), strips = layout.overlay();
  space.gelu = gelu.take(bytes(shape, ffn_));
  space.first = narrow.take(row);
  space.second = narrow.take(row);
  space.attention = strips.take<std::byte>(attention_backward_workspace(attention_shape(shape)));
  layout.cover(gelu);
  layout.cover(narrow);
  layout.cover(strips);
  return space;
}

uint64_t Gpt2Layer::backward_workspace_bytes(const Shape& shape) const {
  check_shape(shape);
  BumpAllocator layout;
  backward_space(layout, shape);
  return layout.bytes();
}

const void* Gpt2Layer::undrop(const Call& call, DropoutSite site, const void* d, void* port, void* buffer) const {
  const int64_t n = call.shape.rows() * sizes_.hidden;
  if (sizes_.dropout == 0) {
    if (port == nullptr) return d;
    core::copy_bytes(port, d, static_cast<size_t>(n) * core::dtype_size(call.shape.type));
    return port;
  }
  void* to = port == nullptr ? buffer : port;
  apply_dropout(call.shape.type, d, dropout(call, layer_dropout_site(index_, site)), first_element(call), to, n);
  return to;
}

void Gpt2Layer::backward_mlp(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_projected,
                             void* d_normed) const {
  mlp_projection_.input_gradient_gelu(call, mlp_c_proj_weight, d_projected, kept.fc, space.wide, space.gelu,
                                      space.scratch);
  mlp_projection_.weight_gradients(call, mlp_c_proj_weight, space.gelu, d_projected, space.scratch);
  void* normed = call.port_or(normed_2, space.narrow);
  if (normed == space.narrow) norm_.forward(call, ln_2_weight, kept.residual, normed, {});
  c_fc_.weight_gradients(call, c_fc_weight, normed, space.wide, space.scratch);
  c_fc_.input_gradient(call, c_fc_weight, space.wide, d_normed, space.scratch);
}

void Gpt2Layer::backward_attention(const Call& call, const Kept& kept, const BackwardSpace& space,
                                   const void* d_attended, void* d_normed) const {
  const Shape& shape = call.shape;
  attention_projection_.weight_gradients(call, attn_c_proj_weight, kept.attention, d_attended, space.scratch);
  attention_projection_.input_gradient(call, attn_c_proj_weight, d_attended, space.narrow, space.scratch);
  attention_backward(attention_shape(shape, call.tensor_rank), kept.qkv, kept.attention, kept.lse, space.narrow,
                     space.wide, dropout(call, layer_dropout_site(index_, DropoutSite::attention)), call.first_sample,
                     space.attention);
  void* normed = call.port_or(normed_1, space.narrow);
  if (normed == space.narrow) norm_.forward(call, ln_1_weight, call.input, normed, {});
  c_attn_.weight_gradients(call, c_attn_weight, normed, space.wide, space.scratch);
  c_attn_.input_gradient(call, c_attn_weight, space.wide, d_normed, space.scratch);
}

void Gpt2Layer::backward(const Call& call) const {
  check_shape(call.shape);
  const Parts parts = call.parts;
  BumpAllocator workspace(call.workspace);
  const Kept kept = kept_in(call);
  const BackwardSpace space = backward_space(workspace, call.shape);
  const void *d_projected = call.d_port(projected), *d_attended = call.d_port(attended);
  void *d_normed_1 = call.d_port_or(normed_1, space.first), *d_normed_2 = call.d_port_or(normed_2, space.first);

  if (parts.has(output)) {
    d_projected = undrop(call, DropoutSite::mlp_output, call.d_output, call.d_port(projected), space.narrow);
  }
  if (parts.has(projection)) backward_mlp(call, kept, space, d_projected, d_normed_2);
  // From here on d_input holds the gradient of the residual stream between attention and MLP.
  if (parts.has(norm_2)) {
    norm_.backward(call, ln_2_weight, kept.residual, d_normed_2, kept.second_norm, call.d_output, call.d_input,
                   space.scratch);
    d_attended = undrop(call, DropoutSite::attention_output, call.d_input, call.d_port(attended), space.second);
  }
  if (parts.has(attention)) backward_attention(call, kept, space, d_attended, d_normed_1);
  if (parts.has(norm_1)) {
    norm_.backward(call, ln_1_weight, call.input, d_normed_1, kept.first_norm, call.d_input, call.d_input,
                   space.scratch);
  }
}

}  // namespace zrt::models
