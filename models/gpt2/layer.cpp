#include "models/gpt2/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace zrt::models {

Gpt2Layer::Gpt2Layer(const Gpt2Config& config, int64_t index)
    : TransformerBlock({config.hidden, config.sequence, config.vocab, config.dropout}, fmt::format("h.{}", index)),
      heads_(config.heads),
      index_(index),
      norm_{NormKind::layer, config.hidden, 1e-5f},
      c_attn_{config.hidden, 3 * config.hidden, Linear::Stored::in_out, true},
      attention_projection_{config.hidden, config.hidden, Linear::Stored::in_out, true},
      c_fc_{config.hidden, 4 * config.hidden, Linear::Stored::in_out, true},
      mlp_projection_{4 * config.hidden, config.hidden, Linear::Stored::in_out, true} {
  const int64_t C = config.hidden;
  // Output projections start smaller, so that the residual stream does not grow with depth.
  const float projection = 0.02f / std::sqrt(2.0f * static_cast<float>(config.layers));
  const auto param = [&](const char* suffix, std::vector<int64_t> shape, Init init, float deviation = 0) {
    params_.push_back({name_ + "." + suffix, std::move(shape), init, deviation});
  };
  param("ln_1.weight", {C}, Init::ones);
  param("ln_1.bias", {C}, Init::zeros);
  param("attn.c_attn.weight", {C, 3 * C}, Init::normal, 0.02f);
  param("attn.c_attn.bias", {3 * C}, Init::zeros);
  param("attn.c_proj.weight", {C, C}, Init::normal, projection);
  param("attn.c_proj.bias", {C}, Init::zeros);
  param("ln_2.weight", {C}, Init::ones);
  param("ln_2.bias", {C}, Init::zeros);
  param("mlp.c_fc.weight", {C, 4 * C}, Init::normal, 0.02f);
  param("mlp.c_fc.bias", {4 * C}, Init::zeros);
  param("mlp.c_proj.weight", {4 * C, C}, Init::normal, projection);
  param("mlp.c_proj.bias", {C}, Init::zeros);
}

AttentionShape Gpt2Layer::attention_shape(const Shape& shape) const {
  const float dropout = shape.mode == Mode::train ? sizes_.dropout : 0;
  return {shape.B, shape.T, heads_, heads_, sizes_.hidden / heads_, shape.type, dropout};
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

Gpt2Layer::Kept Gpt2Layer::kept_in(BumpAllocator& layout, BumpAllocator& recomputed, const Shape& shape) const {
  const uint64_t R = static_cast<uint64_t>(shape.rows()), size = core::dtype_size(shape.type);
  const uint64_t row = R * static_cast<uint64_t>(sizes_.hidden) * size;
  Kept kept{};
  if (shape.mode == Mode::train) {
    kept.first_norm = norm_.statistics_in(layout, shape), kept.second_norm = norm_.statistics_in(layout, shape);
    kept.lse = layout.take<float>(R * 4 * static_cast<uint64_t>(heads_));
    kept.residual = layout.take(row), kept.qkv = layout.take(3 * row), kept.attention = layout.take(row);
    kept.fc = (shape.keep == Keep::all ? layout : recomputed).take(4 * row);
  } else {
    // qkv and attention are dead when fc is made, so they share its space.
    kept.residual = layout.take(row);
    BumpAllocator first = layout.overlay();
    kept.qkv = first.take(3 * row), kept.attention = first.take(row);
    kept.fc = layout.take(4 * row);
    layout.cover(first);
  }
  return kept;
}

Gpt2Layer::Kept Gpt2Layer::kept_in(const Call& call) const {
  BumpAllocator saved(call.saved), recomputed(call.recomputed);
  return kept_in(saved, recomputed, call.shape);
}

Gpt2Layer::ForwardSpace Gpt2Layer::forward_space(BumpAllocator& layout, const Shape& shape, Kept* kept) const {
  const uint64_t row =
      static_cast<uint64_t>(shape.rows() * sizes_.hidden) * static_cast<uint64_t>(core::dtype_size(shape.type));
  ForwardSpace space{};
  space.scratch = layout.take<std::byte>(forward_scratch(shape));
  const Kept inner = shape.mode == Mode::train ? Kept{} : kept_in(layout, layout, shape);
  if (kept != nullptr && shape.mode != Mode::train) *kept = inner;
  // A product that applies GELU as it writes still reads the norm's output.
  if (products_fuse()) space.normed = layout.take(row);
  BumpAllocator attention = layout.overlay(), gelu = layout.overlay();
  if (!products_fuse()) space.normed = attention.take(row);
  space.attention =
      attention.take<std::byte>(shape.mode == Mode::decode ? attention_decode_workspace(attention_shape(shape))
                                                           : attention_forward_workspace(attention_shape(shape)));
  // Outside training fc is not needed any more, so GELU works in place.
  space.gelu = shape.mode == Mode::train ? gelu.take(4 * row) : inner.fc;
  layout.cover(attention);
  layout.cover(gelu);
  return space;
}

uint64_t Gpt2Layer::saved_bytes(const Shape& shape) const {
  BumpAllocator layout, recomputed;
  kept_in(layout, recomputed, shape);
  return layout.bytes();
}

uint64_t Gpt2Layer::recomputed_bytes(const Shape& shape) const {
  BumpAllocator layout, recomputed;
  kept_in(layout, recomputed, shape);
  return recomputed.bytes();
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

double Gpt2Layer::forward_flops(const Shape& shape) const {
  const double R = static_cast<double>(shape.rows()), C = static_cast<double>(sizes_.hidden);
  const double keys = static_cast<double>(shape.T) / (shape.mode == Mode::decode ? 1 : 2);
  return 2 * R * 12 * C * C + 2 * 2 * R * keys * C;
}

// Of the four products all but the last, or the third alone.
double Gpt2Layer::recompute_flops(const Shape& shape) const {
  const double R = static_cast<double>(shape.rows()), C = static_cast<double>(sizes_.hidden);
  const double product = 2 * R * 4 * C * C;
  return shape.keep == Keep::selective ? product : forward_flops(shape) - product;
}

void Gpt2Layer::forward(const Call& call) const {
  run(call);
}

void Gpt2Layer::decode(const Call& call) const {
  run(call);
}

void Gpt2Layer::recompute(const Call& call) const {
  if (call.shape.keep == Keep::all) return run(call);
  check_shape(call.shape);
  const Kept kept = kept_in(call);
  BumpAllocator workspace(call.workspace);
  const ForwardSpace space = forward_space(workspace, call.shape, nullptr);
  norm_.forward(call, ln_2_weight, kept.residual, space.normed, {});
  c_fc_.forward_gelu(call, c_fc_weight, space.normed, kept.fc, space.gelu, space.scratch);
}

// Without `output` up to what backward reads.
void Gpt2Layer::run(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  const int64_t R = shape.rows(), C = sizes_.hidden;
  Kept kept{};
  if (shape.mode == Mode::train) kept = kept_in(call);
  BumpAllocator workspace(call.workspace);
  const ForwardSpace space = forward_space(workspace, shape, &kept);

  norm_.forward(call, ln_1_weight, call.input, space.normed, kept.first_norm);
  c_attn_.forward(call, c_attn_weight, space.normed, kept.qkv, space.scratch);
  if (shape.mode == Mode::decode) {
    attention_decode(attention_shape(shape), kept.qkv, kept.attention, call.position, call.cache, space.attention);
  } else {
    attention_forward(attention_shape(shape), kept.qkv, kept.attention, kept.lse,
                      dropout(call, layer_dropout_site(index_, DropoutSite::attention)), call.first_sample,
                      space.attention);
  }
  const bool add = products_add(shape);
  attention_projection_.forward(call, attn_c_proj_weight, kept.attention, kept.residual, space.scratch,
                                add ? call.input : nullptr);
  if (add) {
    norm_.forward(call, ln_2_weight, kept.residual, space.normed, kept.second_norm);
  } else {
    norm_.forward_of_sum(call, ln_2_weight, call.input, kept.residual,
                         dropout(call, layer_dropout_site(index_, DropoutSite::attention_output)), first_element(call),
                         kept.residual, space.normed, kept.second_norm);
  }
  c_fc_.forward_gelu(call, c_fc_weight, space.normed, kept.fc, space.gelu, space.scratch);
  if (call.output == nullptr) return;
  mlp_projection_.forward(call, mlp_c_proj_weight, space.gelu, call.output, space.scratch,
                          add ? kept.residual : nullptr);
  if (!add) {
    add_residual(shape.type, kept.residual, call.output,
                 dropout(call, layer_dropout_site(index_, DropoutSite::mlp_output)), first_element(call), call.output,
                 R * C);
  }
}

}  // namespace zrt::models
