#include <algorithm>

#include "core/device.h"
#include "models/common/gelu_layer.h"

namespace zrt::models {

GeluLayer::BackwardSpace GeluLayer::backward_space(BumpAllocator& layout, const Shape& shape, Parts parts,
                                                   Half half) const {
  const uint64_t row = bytes(shape, sizes_.hidden);
  const int64_t wide = parts.has(hidden) || parts.has(projection) ? ffn_ : 0,
                qkv = parts.has(attention) ? 3 * attended_ : 0;
  uint64_t scratch = norm_.backward_scratch(row_share(shape));
  for (const Linear& linear : linears()) scratch = std::max(scratch, linear.backward_scratch(shape));
  BackwardSpace space{};
  space.scratch = layout.take<std::byte>(scratch);
  space.narrow = layout.take(shares_rows() ? bytes(shape, attended_) : row);
  if (half == Half::both) {
    space.first_normed = space.second_normed = space.narrow;
    space.hidden = space.qkv = layout.take(bytes(shape, std::max(wide, qkv)));
  }
  BumpAllocator gelu = layout.overlay(), narrow = layout.overlay(), strips = layout.overlay();
  if (half == Half::both) space.gelu = gelu.take(bytes(shape, wide));
  if (sizes_.degrees.tensor == 1) space.first = narrow.take(row);
  if (!shares_rows()) space.second = narrow.take(row);
  if (qkv > 0 && half != Half::weight) {
    space.attention = strips.take<std::byte>(attention_backward_workspace(attention_shape(shape)));
  }
  layout.cover(gelu);
  layout.cover(narrow);
  layout.cover(strips);
  return space;
}

uint64_t GeluLayer::backward_workspace_bytes(const Shape& shape, Parts parts, Half half) const {
  check_shape(shape);
  BumpAllocator layout;
  backward_space(layout, shape, parts, half);
  return layout.bytes();
}

void GeluLayer::hold(BackwardSpace& space, size_t part, BumpAllocator& layout, const Shape& shape) const {
  const uint64_t row = shares_rows() ? 0 : bytes(shape, sizes_.hidden);  // else ports bring these
  if (part == norm_1 || part == norm_2) layout.take(norm_.held_bytes());
  if (part == projection) space.projected = layout.take(row), space.gelu = layout.take(bytes(shape, ffn_));
  if (part == hidden) space.second_normed = layout.take(row), space.hidden = layout.take(bytes(shape, ffn_));
  if (part != attention) return;
  space.first_normed = layout.take(row), space.attended = layout.take(row);
  space.heads = layout.take(bytes(shape, attended_)), space.qkv = layout.take(bytes(shape, 3 * attended_));
}

uint64_t GeluLayer::held_bytes(const Shape& shape, size_t part) const {
  BackwardSpace space{};
  BumpAllocator layout;
  hold(space, part, layout, shape);
  return layout.bytes();
}

void GeluLayer::backward_mlp(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_projected,
                             void* d_normed) const {
  const bool inputs = call.half != Half::weight, weights = call.half != Half::input;
  if (inputs) {
    mlp_out_.linear.input_gradient_gelu(call, mlp_out_.weight, d_projected, kept.hidden, space.hidden, space.gelu,
                                        space.scratch);
  }
  if (weights) {
    mlp_out_.linear.weight_gradients(call, mlp_out_.weight, space.gelu, d_projected, space.scratch);
  }
  const void* normed = normed_again(call, normed_2, kept.stream, space.second_normed);
  if (weights) mlp_in_.linear.weight_gradients(call, mlp_in_.weight, normed, space.hidden, space.scratch);
  if (inputs) mlp_in_.linear.input_gradient(call, mlp_in_.weight, space.hidden, d_normed, space.scratch);
}

void GeluLayer::backward_attention(const Call& call, const Kept& kept, const BackwardSpace& space,
                                   const void* d_attended, void* d_normed) const {
  const Shape& shape = call.shape;
  const bool inputs = call.half != Half::weight, weights = call.half != Half::input;
  if (call.half == Half::input) core::copy_bytes(space.heads, kept.attention, bytes(shape, attended_));
  if (weights) {
    const void* heads = inputs ? kept.attention : space.heads;
    attention_out_.linear.weight_gradients(call, attention_out_.weight, heads, d_attended, space.scratch);
  }
  if (inputs) {
    attention_out_.linear.input_gradient(call, attention_out_.weight, d_attended, space.narrow, space.scratch);
    attention_backward(attention_shape(shape, call.tensor_rank), kept.qkv, kept.attention, kept.lse, space.narrow,
                       space.qkv, dropped(call, DropoutSite::attention), call.first_sample, space.attention);
  }
  const void* normed = normed_again(call, normed_1, kept.stream, space.first_normed);
  for (const Product& strip : strips_) {
    const void* d = strip.outputs_in(shape.type, space.qkv);
    if (weights) strip.linear.weight_gradients(call, strip.weight, normed, d, space.scratch);
  }
  for (const Product& strip : strips_) {
    const void* d = strip.outputs_in(shape.type, space.qkv);
    if (inputs) strip.linear.input_gradient(call, strip.weight, d, d_normed, space.scratch);
  }
}

void GeluLayer::backward(const Call& call) const {
  check_shape(call.shape);
  BumpAllocator workspace(call.workspace);
  const Kept kept = kept_in(call);
  BackwardSpace space = backward_space(workspace, call.shape, call.parts, call.half);
  find_held(call, [&](size_t part, BumpAllocator layout) { hold(space, part, layout, call.shape); });
  run(call,
      Backward{kept.stream, space.scratch, space.first, space.second, space.narrow, space.attended, space.projected,
               dropped(call, DropoutSite::attention_output), dropped(call, DropoutSite::mlp_output),
               [&](const void* d, void* d_normed) { backward_mlp(call, kept, space, d, d_normed); },
               [&](const void* d, void* d_normed) { backward_attention(call, kept, space, d, d_normed); }});
}

}  // namespace zrt::models
