#include <algorithm>

#include "models/llama/layer.h"

namespace zrt::models {

LlamaLayer::BackwardSpace LlamaLayer::backward_space(BumpAllocator& layout, const Shape& shape) const {
  uint64_t scratch = norm_.backward_scratch(row_share(shape));
  for (const Linear& linear : linears()) scratch = std::max(scratch, linear.backward_scratch(shape));
  for (const int64_t heads : {heads_, kv_heads_}) {
    if (head_norms_) scratch = std::max(scratch, norm_backward_workspace(NormKind::rms, shape.rows() * heads, width_));
  }
  BackwardSpace space{};
  space.scratch = layout.take<std::byte>(scratch);
  space.narrow = layout.take(bytes(shape, std::max(shares_rows() ? 0 : sizes_.hidden, attended_width())));
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
  const void* normed = normed_again(call, normed_2, kept.stream, space.narrow);
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
  const void* normed = normed_again(call, normed_1, kept.stream, space.narrow);
  q_.weight_gradients(call, q_weight, normed, space.qkv, space.scratch);
  k_.weight_gradients(call, k_weight, normed, d_keys, space.scratch);
  v_.weight_gradients(call, v_weight, normed, d_values, space.scratch);
  q_.input_gradient(call, q_weight, space.qkv, d_normed, space.scratch);
  k_.input_gradient(call, k_weight, d_keys, d_normed, space.scratch);
  v_.input_gradient(call, v_weight, d_values, d_normed, space.scratch);
}

void LlamaLayer::backward(const Call& call) const {
  check_shape(call.shape);
  BumpAllocator workspace(call.workspace);
  const Kept kept = kept_in(call);
  const BackwardSpace space = backward_space(workspace, call.shape);
  run(call, Backward{kept.stream,
                     space.scratch,
                     space.narrow,
                     nullptr,
                     nullptr,
                     {},
                     {},
                     [&](const void* d, void* d_normed) { backward_mlp(call, kept, space, d, d_normed); },
                     [&](const void* d, void* d_normed) { backward_attention(call, kept, space, d, d_normed); }});
}

}  // namespace zrt::models
