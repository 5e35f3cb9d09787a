#include <algorithm>

#include "core/device.h"
#include "models/llama/layer.h"

namespace zrt::models {

LlamaLayer::BackwardSpace LlamaLayer::backward_space(BumpAllocator& layout, const Shape& shape) const {
  uint64_t scratch = norm_.backward_scratch(shape);
  for (const Linear& linear : linears()) scratch = std::max(scratch, linear.backward_scratch(shape));
  for (const int64_t heads : {heads_, kv_heads_}) {
    if (head_norms_) scratch = std::max(scratch, norm_backward_workspace(NormKind::rms, shape.rows() * heads, width_));
  }
  BackwardSpace space{};
  space.scratch = layout.take<std::byte>(scratch);
  space.narrow = layout.take(bytes(shape, std::max(sizes_.hidden, attended())));
  BumpAllocator mlp = layout.overlay(), strips = layout.overlay();
  space.gate = mlp.take(bytes(shape, ffn_));
  space.up = mlp.take(bytes(shape, ffn_));
  space.qkv = strips.take(bytes(shape, attention_shape(shape).row()));
  if (head_norms_) space.heads = strips.take(bytes(shape, attention_shape(shape).row()));
  space.attention = strips.take<std::byte>(attention_backward_workspace(attention_shape(shape)));
  layout.cover(mlp);
  layout.cover(strips);
  return space;
}

uint64_t LlamaLayer::backward_workspace_bytes(const Shape& shape) const {
  check_shape(shape);
  BumpAllocator layout;
  backward_space(layout, shape);
  return layout.bytes();
}

// Through the norms of queries and keys, in place.
void LlamaLayer::head_gradients(const Call& call, const Kept& kept, const BackwardSpace& space) const {
  const Shape& shape = call.shape;
  const auto one = [&](size_t weight, const void* x, void* d, const float* rstd, int64_t count) {
    norm_backward(NormKind::rms, shape.type, x, call.weights[weight], d, nullptr, rstd, nullptr, d,
                  grad_target(call, weight), {}, head_rows(shape, count), space.scratch);
  };
  one(q_norm_weight, kept.qkv, space.qkv, kept.q_rstd, heads_);
  one(k_norm_weight, keys(shape, kept.qkv), keys(shape, space.qkv), kept.k_rstd, kv_heads_);
}

// SwiGLU's output is made again in the space of the gradient of `up`, which needs it no earlier.
void LlamaLayer::backward_mlp(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_projected,
                              void* d_normed) const {
  const Shape& shape = call.shape;
  const int64_t n = shape.rows() * ffn_;
  swiglu(shape.type, kept.gate, kept.up, space.up, n);
  down_.weight_gradients(call, down_weight, space.up, d_projected, space.scratch);
  down_.input_gradient(call, down_weight, d_projected, space.gate, space.scratch);
  swiglu_backward(shape.type, kept.gate, kept.up, space.gate, space.up, n);
  void* normed = call.port_or(normed_2, space.narrow);
  if (normed == space.narrow) norm_.forward(call, post_attention_norm_weight, kept.residual, normed, {});
  gate_.weight_gradients(call, gate_weight, normed, space.gate, space.scratch);
  up_.weight_gradients(call, up_weight, normed, space.up, space.scratch);
  gate_.input_gradient(call, gate_weight, space.gate, d_normed, space.scratch);
  up_.input_gradient(call, up_weight, space.up, d_normed, space.scratch);
}

void LlamaLayer::backward_attention(const Call& call, const Kept& kept, const BackwardSpace& space,
                                    const void* d_attended, void* d_normed) const {
  const Shape& shape = call.shape;
  o_.weight_gradients(call, o_weight, kept.attention, d_attended, space.scratch);
  o_.input_gradient(call, o_weight, d_attended, space.narrow, space.scratch);
  void* heads = head_norms_ ? space.heads : kept.qkv;
  if (head_norms_) turn_heads(call, kept, heads);
  attention_backward(attention_shape(shape), heads, kept.attention, kept.lse, space.narrow, space.qkv, {},
                     call.first_sample, space.attention);
  rotate(call, true, space.qkv);
  if (head_norms_) head_gradients(call, kept, space);
  void *d_keys = keys(shape, space.qkv), *d_values = values(shape, space.qkv);
  void* normed = call.port_or(normed_1, space.narrow);
  if (normed == space.narrow) norm_.forward(call, input_norm_weight, call.input, normed, {});
  q_.weight_gradients(call, q_weight, normed, space.qkv, space.scratch);
  k_.weight_gradients(call, k_weight, normed, d_keys, space.scratch);
  v_.weight_gradients(call, v_weight, normed, d_values, space.scratch);
  q_.input_gradient(call, q_weight, space.qkv, d_normed, space.scratch);
  k_.input_gradient(call, k_weight, d_keys, d_normed, space.scratch);
  v_.input_gradient(call, v_weight, d_values, d_normed, space.scratch);
}

void LlamaLayer::backward(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  const Parts parts = call.parts;
  BumpAllocator workspace(call.workspace);
  const Kept kept = kept_in(call);
  const BackwardSpace space = backward_space(workspace, shape);
  void *d_normed_1 = call.d_port_or(normed_1, space.narrow), *d_normed_2 = call.d_port_or(normed_2, space.narrow);
  // What is behind a sum has the gradient of the sum: inside a run it need not be copied.
  const auto handed = [&](Port port, const void* d) -> const void* {
    void* to = call.d_port(port);
    if (to == nullptr) return d;
    core::copy_bytes(to, d, bytes(shape, sizes_.hidden));
    return to;
  };

  const void *d_projected = call.d_port(projected), *d_attended = call.d_port(attended_port);
  if (parts.has(output)) d_projected = handed(projected, call.d_output);
  if (parts.has(projection)) backward_mlp(call, kept, space, d_projected, d_normed_2);
  // From here on d_input holds the gradient of the residual stream between attention and MLP.
  if (parts.has(norm_2)) {
    norm_.backward(call, post_attention_norm_weight, kept.residual, d_normed_2, kept.second_norm, call.d_output,
                   call.d_input, space.scratch);
    d_attended = handed(attended_port, call.d_input);
  }
  if (parts.has(attention)) backward_attention(call, kept, space, d_attended, d_normed_1);
  if (parts.has(norm_1)) {
    norm_.backward(call, input_norm_weight, call.input, d_normed_1, kept.first_norm, call.d_input, call.d_input,
                   space.scratch);
  }
}

}  // namespace zrt::models
