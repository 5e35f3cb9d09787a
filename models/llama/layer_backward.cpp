#include <algorithm>

#include "core/device.h"
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
  if (half == Half::both) space.first_normed = space.second_normed = space.narrow;
  if (mlps && half == Half::both) {
    space.gate = mlp.take(bytes(shape, ffn_));
    space.up = space.hidden = mlp.take(bytes(shape, ffn_));
  }
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
  const uint64_t row = shares_rows() ? 0 : bytes(shape, sizes_.hidden),
                 wide = bytes(shape, ffn_);  // else ports bring it
  if (part == norm_1 || part == norm_2) layout.take(norm_.held_bytes());
  if (part == projection) space.projected = layout.take(row), space.hidden = layout.take(wide);
  if (part == hidden) {
    space.second_normed = layout.take(row);
    space.gate = layout.take(wide), space.up = layout.take(wide);
  }
  if (part != attention) return;
  space.first_normed = layout.take(row), space.attended = layout.take(row);
  space.from_heads = layout.take(bytes(shape, attended_width()));
  space.qkv = layout.take(bytes(shape, attention_shape(shape).row()));
  if (head_norms_) space.of_head_norms = layout.take<float>(static_cast<uint64_t>(2 * width_) * 4);
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
  const auto one = [&](size_t weight, const void* x, void* d, const float* rstd, int64_t count, int64_t place) {
    const bool whole = call.half == Half::both;
    const GradTarget target = whole ? grad_target(call, weight) : GradTarget{space.of_head_norms + place * width_};
    norm_backward(NormKind::rms, shape.type, x, call.weights[weight], d, nullptr, rstd, nullptr, d, target, {},
                  head_rows(shape, count), space.scratch);
  };
  one(q_norm_weight, kept.qkv, space.qkv, kept.q_rstd, heads_, 0);
  one(k_norm_weight, keys(shape, kept.qkv), keys(shape, space.qkv), kept.k_rstd, kv_heads_, 1);
}

// SwiGLU's output is made again in the space of the gradient of `up`, which needs it no earlier, where that is not
// held.
void LlamaLayer::backward_mlp(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_projected,
                              void* d_normed) const {
  const Shape& shape = call.shape;
  const bool inputs = call.half != Half::weight, weights = call.half != Half::input;
  const int64_t n = shape.rows() * ffn_;
  if (inputs) swiglu(shape.type, kept.gate, kept.up, space.hidden, n);
  if (weights) {
    down_.weight_gradients(call, down_weight, space.hidden, d_projected, space.scratch);
  }
  if (inputs) {
    down_.input_gradient(call, down_weight, d_projected, space.gate, space.scratch);
    swiglu_backward(shape.type, kept.gate, kept.up, space.gate, space.up, n);
  }
  const void* normed = normed_again(call, normed_2, kept.stream, space.second_normed);
  if (weights) {
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
  if (call.half == Half::input) core::copy_bytes(space.from_heads, kept.attention, bytes(shape, attended_width()));
  const void* from_heads = inputs ? kept.attention : space.from_heads;
  if (weights) o_.weight_gradients(call, o_weight, from_heads, d_attended, space.scratch);
  if (inputs) {
    o_.input_gradient(call, o_weight, d_attended, space.narrow, space.scratch);
    void* heads = head_norms_ ? space.heads : kept.qkv;
    if (head_norms_) turn_heads(call, kept, heads);
    attention_backward(attention_shape(shape, call.tensor_rank), heads, kept.attention, kept.lse, space.narrow, d_qkv,
                       {}, call.first_sample, space.attention);
    rotate(call, true, d_qkv);
    if (head_norms_) head_gradients(call, kept, space);
  }
  void *d_keys = keys(shape, d_qkv), *d_values = values(shape, d_qkv);
  const void* normed = normed_again(call, normed_1, kept.stream, space.first_normed);
  if (weights) {
    q_.weight_gradients(call, q_weight, normed, d_qkv, space.scratch);
    k_.weight_gradients(call, k_weight, normed, d_keys, space.scratch);
    v_.weight_gradients(call, v_weight, normed, d_values, space.scratch);
  }
  if (head_norms_ && call.half == Half::weight) {
    write_gradient(space.of_head_norms, width_, grad_target(call, q_norm_weight));
    write_gradient(space.of_head_norms + width_, width_, grad_target(call, k_norm_weight));
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
