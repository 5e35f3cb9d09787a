#include "models/common/gelu_layer.h"

#include <algorithm>

namespace zrt::models {

GeluLayer::GeluLayer(const BlockSizes& sizes, std::string name, const Norm& norm, int64_t heads, int64_t index,
                     const AttentionPattern& pattern)
    : Layer(sizes, std::move(name), norm),
      attended_(sizes.hidden / sizes.degrees.tensor),
      heads_(heads / sizes.degrees.tensor),
      all_heads_(heads),
      ffn_(sizes.part(4 * sizes.hidden)),
      index_(index),
      pattern_(pattern) {}

AttentionShape GeluLayer::attention_shape(const Shape& shape, int tensor_rank) const {
  const float dropout = shape.mode == Mode::train ? sizes_.dropout : 0;
  return {shape.B, shape.T, heads_, heads_, attended_ / heads_, shape.type, dropout, all_heads_, tensor_rank * heads_,
          pattern_};
}

std::vector<Linear> GeluLayer::linears() const {
  std::vector<Linear> all;
  for (const Product& strip : strips_) all.push_back(strip.linear);
  for (const Product* product : {&attention_out_, &mlp_in_, &mlp_out_}) all.push_back(product->linear);
  return all;
}

std::vector<GemmSpec> GeluLayer::products(const Shape& shape) const {
  std::vector<GemmSpec> all;
  for (const Linear& linear : linears()) {
    for (const GemmSpec& spec : linear.products(shape)) all.push_back(spec);
  }
  return all;
}

void GeluLayer::keep(Kept& kept, size_t part, BumpAllocator& layout, const Shape& shape) const {
  Layer::keep(kept.stream, part, layout, shape);
  if (part == attention) {
    kept.lse = layout.take<float>(static_cast<uint64_t>(shape.rows() * heads_) * 4);
    kept.qkv = layout.take(bytes(shape, 3 * attended_)), kept.attention = layout.take(bytes(shape, attended_));
  }
  if (part == hidden) kept.hidden = layout.take(bytes(shape, ffn_));
}

GeluLayer::Kept GeluLayer::kept_in(const Call& call) const {
  Kept kept{};
  for (size_t part = 0; part < call.saved.size(); ++part) {
    if (call.saved[part] == nullptr) continue;
    BumpAllocator layout(call.saved[part]);
    keep(kept, part, layout, call.shape);
  }
  return kept;
}

// qkv and attention are dead when the input of GELU is made, so they share its space.
GeluLayer::Kept GeluLayer::kept_in_workspace(BumpAllocator& layout, const Shape& shape) const {
  Kept kept{};
  kept.stream.residual = layout.take(own_bytes(shape));
  BumpAllocator first = layout.overlay();
  kept.qkv = first.take(bytes(shape, 3 * attended_)), kept.attention = first.take(bytes(shape, attended_));
  kept.hidden = layout.take(bytes(shape, ffn_));
  layout.cover(first);
  return kept;
}

GeluLayer::ForwardSpace GeluLayer::forward_space(BumpAllocator& layout, const Shape& shape, Kept* kept) const {
  const uint64_t row = shares_rows() ? 0 : bytes(shape, sizes_.hidden);
  uint64_t scratch = 0;
  for (const Linear& linear : linears()) scratch = std::max(scratch, linear.forward_scratch(shape));
  ForwardSpace space{};
  space.scratch = layout.take<std::byte>(scratch);
  const Kept inner = shape.mode == Mode::train ? Kept{} : kept_in_workspace(layout, shape);
  if (kept != nullptr && shape.mode != Mode::train) *kept = inner;
  // A product that applies GELU as it writes still reads the norm's output; in a post-LN layer it is added to the
  // MLP's.
  const bool apart = post_norm_ || mlp_in_.linear.fuses_gelu();
  if (apart) space.normed = layout.take(row);
  BumpAllocator beside = layout.overlay(), gelu = layout.overlay();
  if (!apart) space.normed = beside.take(row);
  space.attention =
      beside.take<std::byte>(shape.mode == Mode::decode ? attention_decode_workspace(attention_shape(shape))
                                                        : attention_forward_workspace(attention_shape(shape)));
  // Outside training the input of GELU is not needed any more, so GELU works in place.
  space.gelu = shape.mode == Mode::train ? gelu.take(bytes(shape, ffn_)) : inner.hidden;
  layout.cover(beside);
  layout.cover(gelu);
  return space;
}

uint64_t GeluLayer::saved_bytes(const Shape& shape, size_t part) const {
  if (shape.mode != Mode::train) return part == norm_2 ? own_bytes(shape) : 0;
  BumpAllocator layout;
  Kept kept{};
  keep(kept, part, layout, shape);
  return layout.bytes();
}

uint64_t GeluLayer::forward_workspace_bytes(const Shape& shape) const {
  check_shape(shape);
  BumpAllocator layout;
  forward_space(layout, shape, nullptr);
  return layout.bytes();
}

double GeluLayer::attention_flops(const Shape& shape, Parts parts) const {
  return parts.has(attention) ? heads_flops(shape, attended_, pattern_) : 0;
}

double GeluLayer::forward_flops(const Shape& shape, Parts parts) const {
  const double R = static_cast<double>(shape.rows()), C = static_cast<double>(sizes_.hidden);
  const double A = static_cast<double>(attended_), F = static_cast<double>(ffn_);
  double flops = attention_flops(shape, parts);
  if (parts.has(attention)) flops += 2 * R * 4 * C * A;
  if (parts.has(hidden)) flops += 2 * R * C * F;
  if (parts.has(projection)) flops += 2 * R * C * F;
  return flops;
}

// add: what the projection adds, or null.
void GeluLayer::attend(const Call& call, const Kept& kept, const ForwardSpace& space, const void* normed, void* to,
                       const void* add) const {
  const AttentionShape heads = attention_shape(call.shape, call.tensor_rank);
  for (const Product& strip : strips_) {
    strip.linear.forward(call, strip.weight, normed, strip.outputs_in(call.shape.type, kept.qkv), space.scratch);
  }
  if (call.shape.mode == Mode::decode) {
    attention_decode(heads, kept.qkv, kept.attention, call.position, call.cache, space.attention);
  } else {
    attention_forward(heads, kept.qkv, kept.attention, kept.lse, dropped(call, DropoutSite::attention),
                      call.first_sample, space.attention);
  }
  attention_out_.linear.forward(call, attention_out_.weight, kept.attention, to, space.scratch, add);
}

void GeluLayer::forward(const Call& call) const {
  check_shape(call.shape);
  Kept kept{};
  if (call.shape.mode == Mode::train) kept = kept_in(call);
  BumpAllocator workspace(call.workspace);
  const ForwardSpace space = forward_space(workspace, call.shape, &kept);
  run(call, Forward{kept.stream, space.normed, dropped(call, DropoutSite::attention_output),
                    dropped(call, DropoutSite::mlp_output),
                    [&](const void* normed, void* to, const void* add) { attend(call, kept, space, normed, to, add); },
                    [&](const void* normed) {
                      mlp_in_.linear.forward_gelu(call, mlp_in_.weight, normed, kept.hidden, space.gelu, space.scratch);
                    },
                    [&](void* to, const void* add) {
                      mlp_out_.linear.forward(call, mlp_out_.weight, space.gelu, to, space.scratch, add);
                    }});
}

}  // namespace zrt::models
