#include "models/gpt2/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace zrt::models {

Gpt2Layer::Gpt2Layer(const Gpt2Config& config, int64_t index)
    : Gpt2Block(config, fmt::format("h.{}", index)), index_(index) {
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
  return {shape.B,       shape.T,
          config_.heads, config_.hidden / config_.heads,
          shape.type,    shape.mode == Mode::train ? config_.dropout : 0};
}

GemmSpec Gpt2Layer::linear(const Shape& shape, int64_t in, int64_t out) {
  return {shape.rows(), out, in, false, false, in, out, out, shape.type, shape.type, shape.type, true, false, 1};
}

GemmSpec Gpt2Layer::linear_input(const Shape& shape, int64_t in, int64_t out) {
  return {shape.rows(), in, out, false, true, out, out, in, shape.type, shape.type, shape.type, false, false, 1};
}

GemmSpec Gpt2Layer::linear_weight(const Shape& shape, int64_t in, int64_t out, bool accumulate) {
  return {in,         out,        shape.rows(),    true,  false,      in, out, out,
          shape.type, shape.type, shape.grad_type, false, accumulate, 1};
}

uint64_t Gpt2Layer::forward_scratch(const Shape& shape) const {
  const int64_t C = config_.hidden;
  uint64_t bytes = 0;
  for (const auto& [in, out] : {std::pair{C, 3 * C}, {C, C}, {C, 4 * C}, {4 * C, C}}) {
    bytes = std::max(bytes, find_gemm(linear(shape, in, out)).workspace_bytes());
  }
  return bytes;
}

Gpt2Layer::Kept Gpt2Layer::kept_in(Layout& layout, const Shape& shape, bool statistics) const {
  const uint64_t R = static_cast<uint64_t>(shape.rows()), size = core::dtype_size(shape.type);
  const uint64_t row = R * static_cast<uint64_t>(config_.hidden) * size;
  Kept kept{};
  if (statistics) {
    kept.mean_1 = layout.take<float>(R * 4), kept.rstd_1 = layout.take<float>(R * 4);
    kept.mean_2 = layout.take<float>(R * 4), kept.rstd_2 = layout.take<float>(R * 4);
    kept.lse = layout.take<float>(R * 4 * static_cast<uint64_t>(config_.heads));
    kept.residual = layout.take(row), kept.qkv = layout.take(3 * row), kept.attention = layout.take(row);
    kept.fc = layout.take(4 * row);
  } else {
    // qkv and attention are dead when fc is made, so they share its space.
    kept.residual = layout.take(row);
    Layout first = layout.overlay();
    kept.qkv = first.take(3 * row), kept.attention = first.take(row);
    kept.fc = layout.take(4 * row);
    layout.cover(first);
  }
  return kept;
}

Gpt2Layer::ForwardSpace Gpt2Layer::forward_space(Layout& layout, const Shape& shape, Kept* kept) const {
  const uint64_t row =
      static_cast<uint64_t>(shape.rows() * config_.hidden) * static_cast<uint64_t>(core::dtype_size(shape.type));
  ForwardSpace space{};
  space.scratch = layout.take<std::byte>(forward_scratch(shape));
  const Kept inner = shape.mode == Mode::train ? Kept{} : kept_in(layout, shape, false);
  if (kept != nullptr && shape.mode != Mode::train) *kept = inner;
  Layout attention = layout.overlay(), gelu = layout.overlay();
  space.normed = attention.take(row);
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
  Layout layout;
  kept_in(layout, shape, true);
  return layout.bytes();
}

uint64_t Gpt2Layer::forward_workspace_bytes(const Shape& shape) const {
  check_shape(shape);
  Layout layout;
  forward_space(layout, shape, nullptr);
  return layout.bytes();
}

uint64_t Gpt2Layer::cache_bytes(const Shape& shape) const {
  return attention_cache(attention_shape(shape));
}

double Gpt2Layer::forward_flops(const Shape& shape) const {
  const double R = static_cast<double>(shape.rows()), C = static_cast<double>(config_.hidden);
  const double keys = static_cast<double>(shape.T) / (shape.mode == Mode::decode ? 1 : 2);
  return 2 * R * 12 * C * C + 2 * 2 * R * keys * C;
}

void Gpt2Layer::forward(const Call& call) const {
  run(call);
}

void Gpt2Layer::decode(const Call& call) const {
  run(call);
}

void Gpt2Layer::run(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  const int64_t R = shape.rows(), C = config_.hidden;
  Kept kept{};
  if (shape.mode == Mode::train) {
    Layout saved(call.saved);
    kept = kept_in(saved, shape, true);
  }
  Layout workspace(call.workspace);
  const ForwardSpace space = forward_space(workspace, shape, &kept);
  const auto multiply = [&](size_t index, int64_t in, int64_t out, const void* x, void* y) {
    find_gemm(linear(shape, in, out)).run(x, call.weights[index], y, call.weights[index + 1], space.scratch);
  };

  layernorm(shape.type, call.input, call.weights[ln_1_weight], call.weights[ln_1_bias], space.normed, kept.mean_1,
            kept.rstd_1, R, C);
  multiply(c_attn_weight, C, 3 * C, space.normed, kept.qkv);
  if (shape.mode == Mode::decode) {
    attention_decode(attention_shape(shape), kept.qkv, kept.attention, call.position, call.cache, space.attention);
  } else {
    attention_forward(attention_shape(shape), kept.qkv, kept.attention, kept.lse,
                      dropout(call, layer_dropout_site(index_, DropoutSite::attention)), call.first_sample,
                      space.attention);
  }
  multiply(attn_c_proj_weight, C, C, kept.attention, kept.residual);
  add_residual(shape.type, call.input, kept.residual,
               dropout(call, layer_dropout_site(index_, DropoutSite::attention_output)), first_element(call),
               kept.residual, R * C);

  layernorm(shape.type, kept.residual, call.weights[ln_2_weight], call.weights[ln_2_bias], space.normed, kept.mean_2,
            kept.rstd_2, R, C);
  multiply(c_fc_weight, C, 4 * C, space.normed, kept.fc);
  gelu(shape.type, kept.fc, space.gelu, R * 4 * C);
  multiply(mlp_c_proj_weight, 4 * C, C, space.gelu, call.output);
  add_residual(shape.type, kept.residual, call.output,
               dropout(call, layer_dropout_site(index_, DropoutSite::mlp_output)), first_element(call), call.output,
               R * C);
}

std::unique_ptr<Block> make_gpt2_layer(const Gpt2Config& config, int64_t index) {
  return std::make_unique<Gpt2Layer>(config, index);
}

}  // namespace zrt::models
