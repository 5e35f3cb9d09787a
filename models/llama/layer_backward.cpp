#include <algorithm>

#include "models/llama/layer.h"

namespace zrt::models {

LlamaLayer::BackwardSpace LlamaLayer::backward_space(BumpAllocator& layout, const Shape& shape, Parts parts,
                                                     Half half) const {
  const bool mlps = parts.has(hidden) || parts.has(projection), attends = parts.has(attention);
  uint64_t scratch = norm_.backward_scratch(row_share(shape));
  for (const Linear& linear : linears()) scratch = std::max(scratch, linear.backward_scratch(shape));
  for (const int64_t heads : {heads_, kv_heads_}) {
    if (head_norms_) scratch = std::max(scratch, norm_backward_workspace(NormKind::rms, shape.rows() * heads, width_));
  }
  BackwardSpace space{};
  space.scratch = layout.take<std::byte>(scratch);
  space.narrow = layout.take(bytes(shape, std::max(shares_rows() ? 0 : sizes_.hidden, attended_width())));
  BumpAllocator mlp = layout.overlay(), strips = layout.overlay();
  if (mlps && half == Half::both) space.gate = mlp.take(bytes(shape, ffn_));
  if (mlps && half != Half::input) space.up = space.hidden = mlp.take(bytes(shape, ffn_));
  if (attends && half == Half::both) space.qkv = strips.take(bytes(shape, attention_shape(shape).row()));
  if (attends && half != Half::weight) {
    if (head_norms_) space.heads = strips.take(bytes(shape, attention_shape(shape).row()));
    space.attention = strips.take<std::byte>(attention_backward_workspace(attention_shape(shape)));
  }
  layout.cover(mlp);
  layout.cover(strips);
  return space;
}

uint64_t LlamaLayer::backward_workspace_bytes(const Shape& shape, Parts parts, Half half) const {
  check_shape(shape);
  BumpAllocator layout;
  backward_space(layout, shape, parts, half);
  return layout.bytes();
}

void LlamaLayer::hold(BackwardSpace& space, size_t part, BumpAllocator& layout, const Shape& shape) const {
  if (part == projection) space.projected = layout.take(handed_on_bytes(shape));
  if (part == hidden) space.gate = layout.take(bytes(shape, ffn_)), space.up = layout.take(bytes(shape, ffn_));
  if (part != attention) return;
  space.attended = layout.take(handed_on_bytes(shape));
  space.qkv = layout.take(bytes(shape, attention_shape(shape).row()));
}

uint64_t LlamaLayer::held_bytes(const Shape& shape, size_t part) const {
  BackwardSpace space{};
  BumpAllocator layout;
  hold(space, part, layout, shape);
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

// SwiGLU's output is made again in the space of the gradient of `up`, which needs it no earlier, where that is not
// held.
void LlamaLayer::backward_mlp(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_projected,
                              void* d_normed) const {
  const Shape& shape = call.shape;
  const bool inputs = call.half != Half::weight, weights = call.half != Half::input;
  const int64_t n = shape.rows() * ffn_;
  if (weights) {
    swiglu(shape.type, kept.gate, kept.up, space.hidden, n);
    down_.weight_gradients(call, down_weight, space.hidden, d_projected, space.scratch);
  }
  if (inputs) {
    down_.input_gradient(call, down_weight, d_projected, space.gate, space.scratch);
    swiglu_backward(shape.type, kept.gate, kept.up, space.gate, space.up, n);
  }
  if (weights) {
    const void* normed = normed_again(call, normed_2, kept.stream, space.narrow);
    gate_.weight_gradients(call, gate_weight, normed, space.gate, space.scratch);
    up_.weight_gradients(call, up_weight, normed, space.up, space.scratch);
  }
  if (!inputs) return;
  gate_.input_gradient(call, gate_weight, space.gate, d_normed, space.scratch);
  up_.input_gradient(call, up_weight, space.up, d_normed, space.scratch);
}

void LlamaLayer::backward_attention(const Call& call, const Kept& kept, const BackwardSpace& space,
                                    const void* d_attended, void* d_normed) const {
  const Shape& shape = call.shape;
  const bool inputs = call.half != Half::weight, weights = call.half != Half::input;
  void* d_qkv = space.qkv;
  if (weights) o_.weight_gradients(call, o_weight, kept.attention, d_attended, space.scratch);
  if (inputs) {
    o_.input_gradient(call, o_weight, d_attended, space.narrow, space.scratch);
    void* heads = head_norms_ ? space.heads : kept.qkv;
    if (head_norms_) turn_heads(call, kept, heads);
    attention_backward(attention_shape(shape), heads, kept.attention, kept.lse, space.narrow, d_qkv, {},
                       call.first_sample, space.attention);
    rotate(call, true, d_qkv);
    if (head_norms_) head_gradients(call, kept, space);
  }
  void *d_keys = keys(shape, d_qkv), *d_values = values(shape, d_qkv);
  if (weights) {
    const void* normed = normed_again(call, normed_1, kept.stream, space.narrow);
    q_.weight_gradients(call, q_weight, normed, d_qkv, space.scratch);
    k_.weight_gradients(call, k_weight, normed, d_keys, space.scratch);
    v_.weight_gradients(call, v_weight, normed, d_values, space.scratch);
  }
  if (!inputs) return;
  q_.input_gradient(call, q_weight, d_qkv, d_normed, space.scratch);
  k_.input_gradient(call, k_weight, d_keys, d_normed, space.scratch);
  v_.input_gradient(call, v_weight, d_values, d_normed, space.scratch);
}

void LlamaLayer::backward(const Call& call) const {
  check_shape(call.shape);
  BumpAllocator workspace(call.workspace);
  const Kept kept = kept_in(call);
  BackwardSpace space = backward_space(workspace, call.shape, call.parts, call.half);
  find_held(call, [&](size_t part, BumpAllocator layout) { hold(space, part, layout, call.shape); });
  run(call, Backward{kept.stream,
                     space.scratch,
                     space.narrow,
                     nullptr,
                     nullptr,
                     space.attended,
                     space.projected,
                     {},
                     {},
                     [&](const void* d, void* d_normed) { backward_mlp(call, kept, space, d, d_normed); },
                     [&](const void* d, void* d_normed) { backward_attention(call, kept, space, d, d_normed); }});
}

}  // namespace zrt::models
