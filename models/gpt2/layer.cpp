#include "models/gpt2/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace zrt::models {

Gpt2Layer::Gpt2Layer(const Gpt2Config& config, int64_t index)
    : Layer({config.hidden, config.sequence, config.vocab, config.dropout, config.tensor, config.sequence_parallel},
            fmt::format("h.{}", index), {NormKind::layer, config.hidden, 1e-5f}),
      heads_(config.heads / config.tensor),
      all_heads_(config.heads),
      attended_(config.hidden / config.tensor),
      ffn_(sizes_.part(4 * config.hidden)),
      index_(index),
      pattern_(config.sparse.of(index)),
      c_attn_{config.hidden, 3 * attended_, Linear::Stored::in_out, true},
      attention_projection_{attended_, config.hidden, Linear::Stored::in_out, true},
      c_fc_{config.hidden, ffn_, Linear::Stored::in_out, true},
      mlp_projection_{ffn_, config.hidden, Linear::Stored::in_out, true} {
  attention_projection_.shared = mlp_projection_.shared = config.tensor > 1;
  const int64_t C = config.hidden;
  // Output projections start smaller, so that the residual stream does not grow with depth.
  const float small = 0.02f / std::sqrt(2.0f * static_cast<float>(config.layers));
  const auto param = [&](const char* suffix, std::vector<int64_t> shape, Init init, float deviation = 0) {
    params_.push_back({name_ + "." + suffix, std::move(shape), init, deviation});
  };
  // Of which each rank has a part.
  const auto part = [&](size_t dimension, int64_t sections = 1) {
    params_.back() = sliced(std::move(params_.back()), dimension, config.tensor, sections);
  };
  first_norm_weight_ = ln_1_weight, second_norm_weight_ = ln_2_weight;
  norm_.add_params(params_, name_ + ".ln_1", shares_rows());
  param("attn.c_attn.weight", {C, 3 * C}, Init::normal, 0.02f), part(1, 3);
  param("attn.c_attn.bias", {3 * C}, Init::zeros), part(0, 3);
  param("attn.c_proj.weight", {C, C}, Init::normal, small), part(0);
  param("attn.c_proj.bias", {C}, Init::zeros);
  norm_.add_params(params_, name_ + ".ln_2", shares_rows());
  param("mlp.c_fc.weight", {C, 4 * C}, Init::normal, 0.02f), part(1);
  param("mlp.c_fc.bias", {4 * C}, Init::zeros), part(0);
  param("mlp.c_proj.weight", {4 * C, C}, Init::normal, small), part(0);
  param("mlp.c_proj.bias", {C}, Init::zeros);
}

AttentionShape Gpt2Layer::attention_shape(const Shape& shape, int tensor_rank) const {
  const float dropout = shape.mode == Mode::train ? sizes_.dropout : 0;
  return {shape.B, shape.T, heads_, heads_, attended_ / heads_, shape.type, dropout, all_heads_, tensor_rank * heads_,
          pattern_};
}

uint64_t Gpt2Layer::forward_scratch(const Shape& shape) const {
  uint64_t bytes = 0;
  for (const Linear& linear : linears()) bytes = std::max(bytes, linear.forward_scratch(shape));
  return bytes;
}

std::vector<GemmSpec> Gpt2Layer::products(const Shape& shape) const {
  std::vector<GemmSpec> all;
  for (const Linear& linear : linears()) {
    for (const GemmSpec& spec : linear.products(shape)) all.push_back(spec);
  }
  return all;
}

void Gpt2Layer::keep(Kept& kept, size_t part, BumpAllocator& layout, const Shape& shape) const {
  Layer::keep(kept.stream, part, layout, shape);
  if (part == attention) {
    kept.lse = layout.take<float>(static_cast<uint64_t>(shape.rows() * heads_) * 4);
    kept.qkv = layout.take(bytes(shape, 3 * attended_)), kept.attention = layout.take(bytes(shape, attended_));
  }
  if (part == hidden) kept.fc = layout.take(bytes(shape, ffn_));
}

Gpt2Layer::Kept Gpt2Layer::kept_in(const Call& call) const {
  Kept kept{};
  for (size_t part = 0; part < call.saved.size(); ++part) {
    if (call.saved[part] == nullptr) continue;
    BumpAllocator layout(call.saved[part]);
    keep(kept, part, layout, call.shape);
  }
  return kept;
}

// qkv and attention are dead when fc is made, so they share its space.
Gpt2Layer::Kept Gpt2Layer::kept_in_workspace(BumpAllocator& layout, const Shape& shape) const {
  Kept kept{};
  kept.stream.residual = layout.take(own_bytes(shape));
  BumpAllocator first = layout.overlay();
  kept.qkv = first.take(bytes(shape, 3 * attended_)), kept.attention = first.take(bytes(shape, attended_));
  kept.fc = layout.take(bytes(shape, ffn_));
  layout.cover(first);
  return kept;
}

Gpt2Layer::ForwardSpace Gpt2Layer::forward_space(BumpAllocator& layout, const Shape& shape, Kept* kept) const {
  const uint64_t row = shares_rows() ? 0 : bytes(shape, sizes_.hidden);
  ForwardSpace space{};
  space.scratch = layout.take<std::byte>(forward_scratch(shape));
  const Kept inner = shape.mode == Mode::train ? Kept{} : kept_in_workspace(layout, shape);
  if (kept != nullptr && shape.mode != Mode::train) *kept = inner;
  // A product that applies GELU as it writes still reads the norm's output.
  if (products_fuse()) space.normed = layout.take(row);
  BumpAllocator beside = layout.overlay(), gelu = layout.overlay();
  if (!products_fuse()) space.normed = beside.take(row);
  space.attention =
      beside.take<std::byte>(shape.mode == Mode::decode ? attention_decode_workspace(attention_shape(shape))
                                                        : attention_forward_workspace(attention_shape(shape)));
  // Outside training fc is not needed any more, so GELU works in place.
  space.gelu = shape.mode == Mode::train ? gelu.take(bytes(shape, ffn_)) : inner.fc;
  layout.cover(beside);
  layout.cover(gelu);
  return space;
}

uint64_t Gpt2Layer::saved_bytes(const Shape& shape, size_t part) const {
  if (shape.mode != Mode::train) return part == norm_2 ? own_bytes(shape) : 0;
  BumpAllocator layout;
  Kept kept{};
  keep(kept, part, layout, shape);
  return layout.bytes();
}

uint64_t Gpt2Layer::forward_workspace_bytes(const Shape& shape) const {
  check_shape(shape);
  BumpAllocator layout;
  forward_space(layout, shape, nullptr);
  return layout.bytes();
}

uint64_t Gpt2Layer::cache_bytes(const Shape& shape) const {
  return attention_cache(attention_shape(shape));
}

double Gpt2Layer::attention_flops(const Shape& shape, Parts parts) const {
  return parts.has(attention) ? heads_flops(shape, attended_, pattern_) : 0;
}

double Gpt2Layer::forward_flops(const Shape& shape, Parts parts) const {
  const double R = static_cast<double>(shape.rows()), C = static_cast<double>(sizes_.hidden);
  const double A = static_cast<double>(attended_), F = static_cast<double>(ffn_);
  double flops = attention_flops(shape, parts);
  if (parts.has(attention)) flops += 2 * R * 4 * C * A;
  if (parts.has(hidden)) flops += 2 * R * C * F;
  if (parts.has(projection)) flops += 2 * R * C * F;
  return flops;
}

// add: what the projection adds, or null.
void Gpt2Layer::attend(const Call& call, const Kept& kept, const ForwardSpace& space, const void* normed, void* to,
                       const void* add) const {
  const AttentionShape heads = attention_shape(call.shape, call.tensor_rank);
  c_attn_.forward(call, c_attn_weight, normed, kept.qkv, space.scratch);
  if (call.shape.mode == Mode::decode) {
    attention_decode(heads, kept.qkv, kept.attention, call.position, call.cache, space.attention);
  } else {
    attention_forward(heads, kept.qkv, kept.attention, kept.lse, dropped(call, DropoutSite::attention),
                      call.first_sample, space.attention);
  }
  attention_projection_.forward(call, attn_c_proj_weight, kept.attention, to, space.scratch, add);
}

void Gpt2Layer::forward(const Call& call) const {
  check_shape(call.shape);
  Kept kept{};
  if (call.shape.mode == Mode::train) kept = kept_in(call);
  BumpAllocator workspace(call.workspace);
  const ForwardSpace space = forward_space(workspace, call.shape, &kept);
  run(call, Forward{kept.stream, space.normed, dropped(call, DropoutSite::attention_output),
                    dropped(call, DropoutSite::mlp_output),
                    [&](const void* normed, void* to, const void* add) { attend(call, kept, space, normed, to, add); },
                    [&](const void* normed) {
                      c_fc_.forward_gelu(call, c_fc_weight, normed, kept.fc, space.gelu, space.scratch);
                    },
                    [&](void* to, const void* add) {
                      mlp_projection_.forward(call, mlp_c_proj_weight, space.gelu, to, space.scratch, add);
                    }});
}

}  // namespace zrt::models
