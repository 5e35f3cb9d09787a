#include "models/llama/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/llama/rotary_frequencies.h"

namespace zrt::models {

LlamaLayer::LlamaLayer(const LlamaConfig& config, int64_t index)
    : Layer({config.hidden, config.sequence, config.vocab, 0, config.degrees}, fmt::format("layers.{}", index),
            {NormKind::rms, config.hidden, config.rms_norm_eps}),
      heads_(config.heads / config.degrees.tensor),
      kv_heads_(config.kv_heads / config.degrees.tensor),
      width_(config.head_dim),
      ffn_(sizes_.part(config.ffn)),
      frequencies_(rotary_frequencies(width_, config.rope_theta, config.rope_scaling)),
      head_norms_(config.head_norms),
      pattern_(config.sparse.of(index)) {
  const int64_t C = config.hidden, A = attended_width(), kv = kv_heads_ * width_, Q = A + 2 * kv;
  const auto linear = [](int64_t in, int64_t out, int64_t stride, bool joined) {
    return Linear{in, out, Linear::Stored::out_in, false, stride, joined};
  };
  q_ = linear(C, A, Q, false), k_ = linear(C, kv, Q, true), v_ = linear(C, kv, Q, true), o_ = linear(A, C, 0, false);
  gate_ = linear(C, ffn_, 0, false), up_ = linear(C, ffn_, 0, true), down_ = linear(ffn_, C, 0, false);

  o_.shared = down_.shared = config.degrees.tensor > 1;

  const std::string prefix = "model." + name_ + ".";
  // What is added to the residual stream starts smaller, so that the stream does not grow with depth.
  const float small = 0.02f / std::sqrt(2.0f * static_cast<float>(config.layers));
  // dimension: along which each rank has a part.
  const auto matrix = [&](const char* suffix, int64_t out, int64_t in, float deviation, size_t dimension) {
    params_.push_back(sliced({prefix + suffix, {out, in}, Init::normal, deviation}, dimension, config.degrees.tensor));
  };
  const int64_t heads = config.heads * width_, shared = config.kv_heads * width_;
  first_norm_weight_ = input_norm_weight, second_norm_weight_ = post_attention_norm_weight;
  norm_.add_params(params_, prefix + "input_layernorm", shares_rows());
  matrix("self_attn.q_proj.weight", heads, C, 0.02f, 0);
  matrix("self_attn.k_proj.weight", shared, C, 0.02f, 0);
  matrix("self_attn.v_proj.weight", shared, C, 0.02f, 0);
  matrix("self_attn.o_proj.weight", C, heads, small, 1);
  norm_.add_params(params_, prefix + "post_attention_layernorm", shares_rows());
  matrix("mlp.gate_proj.weight", config.ffn, C, 0.02f, 0);
  matrix("mlp.up_proj.weight", config.ffn, C, 0.02f, 0);
  matrix("mlp.down_proj.weight", C, config.ffn, small, 1);
  if (!head_norms_) return;
  // Of all heads alike: each rank has the gradients of its own.
  for (const char* suffix : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) {
    params_.push_back({prefix + suffix, {width_}, Init::ones, 0, {}, config.degrees.tensor > 1});
  }
}

AttentionShape LlamaLayer::attention_shape(const Shape& shape, int tensor_rank) const {
  return {shape.B, shape.T, heads_, kv_heads_, width_, shape.type, 0, 0, tensor_rank * heads_, pattern_};
}

void* LlamaLayer::keys(const Shape& shape, void* qkv) const {
  return static_cast<std::byte*>(qkv) + static_cast<uint64_t>(attended_width()) * core::dtype_size(shape.type);
}

void* LlamaLayer::values(const Shape& shape, void* qkv) const {
  return static_cast<std::byte*>(keys(shape, qkv)) +
         static_cast<uint64_t>(kv_heads_ * width_) * core::dtype_size(shape.type);
}

void LlamaLayer::keep(Kept& kept, size_t part, BumpAllocator& layout, const Shape& shape) const {
  const auto per_head = [&](int64_t heads) {
    return layout.take<float>(static_cast<uint64_t>(shape.rows() * heads) * 4);
  };
  Layer::keep(kept.stream, part, layout, shape);
  if (part == attention) {
    kept.lse = per_head(heads_);
    if (head_norms_) kept.q_rstd = per_head(heads_), kept.k_rstd = per_head(kv_heads_);
    kept.qkv = layout.take(bytes(shape, attention_shape(shape).row()));
    kept.attention = layout.take(bytes(shape, attended_width()));
  }
  if (part == hidden) kept.gate = layout.take(bytes(shape, ffn_)), kept.up = layout.take(bytes(shape, ffn_));
}

LlamaLayer::Kept LlamaLayer::kept_in(const Call& call) const {
  Kept kept{};
  for (size_t part = 0; part < call.saved.size(); ++part) {
    if (call.saved[part] == nullptr) continue;
    BumpAllocator layout(call.saved[part]);
    keep(kept, part, layout, call.shape);
  }
  return kept;
}

// qkv and attention are dead when gate and up are made, so they share their space.
LlamaLayer::Kept LlamaLayer::kept_in_workspace(BumpAllocator& layout, const Shape& shape) const {
  Kept kept{};
  kept.stream.residual = layout.take(own_bytes(shape));
  BumpAllocator first = layout.overlay();
  kept.qkv = first.take(bytes(shape, attention_shape(shape).row()));
  kept.attention = first.take(bytes(shape, attended_width()));
  kept.gate = layout.take(bytes(shape, ffn_)), kept.up = layout.take(bytes(shape, ffn_));
  layout.cover(first);
  return kept;
}

LlamaLayer::ForwardSpace LlamaLayer::forward_space(BumpAllocator& layout, const Shape& shape, Kept* kept) const {
  uint64_t scratch = 0;
  for (const Linear& linear : linears()) scratch = std::max(scratch, linear.forward_scratch(shape));
  ForwardSpace space{};
  space.scratch = layout.take<std::byte>(scratch);
  if (shape.mode != Mode::train) *kept = kept_in_workspace(layout, shape);
  BumpAllocator beside = layout.overlay(), wide = layout.overlay();
  const bool apart = head_norms_ && shape.mode == Mode::train;  // backward needs them as they were
  BumpAllocator first = beside.overlay();
  if (!shares_rows()) space.normed = first.take(bytes(shape, sizes_.hidden));
  space.heads = apart ? beside.take(bytes(shape, attention_shape(shape).row())) : kept->qkv;
  beside.cover(first);
  space.attention =
      beside.take<std::byte>(shape.mode == Mode::decode ? attention_decode_workspace(attention_shape(shape))
                                                        : attention_forward_workspace(attention_shape(shape)));
  // Outside training gate is not needed any more, so SwiGLU works in place.
  space.hidden = shape.mode == Mode::train ? wide.take(bytes(shape, ffn_)) : kept->gate;
  layout.cover(beside);
  layout.cover(wide);
  return space;
}

uint64_t LlamaLayer::saved_bytes(const Shape& shape, size_t part) const {
  if (shape.mode != Mode::train) return part == norm_2 ? own_bytes(shape) : 0;
  BumpAllocator layout;
  Kept kept{};
  keep(kept, part, layout, shape);
  return layout.bytes();
}

uint64_t LlamaLayer::forward_workspace_bytes(const Shape& shape) const {
  check_shape(shape);
  BumpAllocator layout;
  Kept kept{};
  forward_space(layout, shape, &kept);
  return layout.bytes();
}

uint64_t LlamaLayer::cache_bytes(const Shape& shape) const {
  return attention_cache(attention_shape(shape));
}

std::vector<GemmSpec> LlamaLayer::products(const Shape& shape) const {
  std::vector<GemmSpec> all;
  for (const Linear& linear : linears()) {
    for (const GemmSpec& spec : linear.products(shape)) all.push_back(spec);
  }
  return all;
}

double LlamaLayer::attention_flops(const Shape& shape, Parts parts) const {
  return parts.has(attention) ? heads_flops(shape, attended_width(), pattern_) : 0;
}

double LlamaLayer::forward_flops(const Shape& shape, Parts parts) const {
  const double R = static_cast<double>(shape.rows());
  double flops = attention_flops(shape, parts);
  const auto add = [&](std::initializer_list<const Linear*> products) {
    for (const Linear* linear : products) {
      flops += 2 * R * static_cast<double>(linear->in) * static_cast<double>(linear->out);
    }
  };
  if (parts.has(attention)) add({&q_, &k_, &v_, &o_});
  if (parts.has(hidden)) add({&gate_, &up_});
  if (parts.has(projection)) add({&down_});
  return flops;
}

void LlamaLayer::rotate(const Call& call, bool backward, void* qkv) const {
  const Shape& shape = call.shape;
  const bool one = shape.mode == Mode::decode;
  const RotaryShape rows{shape.rows(), one ? 1 : shape.T, heads_ + kv_heads_, width_, attention_shape(shape).row()};
  rotary(shape.type, rows, frequencies_.data(), one ? call.position : 0, backward, qkv);
}

NormRows LlamaLayer::head_rows(const Shape& shape, int64_t heads) const {
  return {shape.rows() * heads, width_, heads, attention_shape(shape).row()};
}

void LlamaLayer::turn_heads(const Call& call, const Kept& kept, void* heads) const {
  const Shape& shape = call.shape;
  if (head_norms_) {
    const auto one = [&](size_t weight, const void* from, void* to, float* rstd, int64_t count) {
      norm(NormKind::rms, shape.type, from, call.weights[weight], nullptr, to, nullptr, rstd, norm_.epsilon,
           head_rows(shape, count));
    };
    one(q_norm_weight, kept.qkv, heads, kept.q_rstd, heads_);
    one(k_norm_weight, keys(shape, kept.qkv), keys(shape, heads), kept.k_rstd, kv_heads_);
    const int64_t row = attention_shape(shape).row();
    if (heads != kept.qkv) {
      copy_columns(shape.type, values(shape, kept.qkv), row, values(shape, heads), row, shape.rows(),
                   kv_heads_ * width_);
    }
  }
  rotate(call, false, heads);
}

// add: what the projection adds, or null.
void LlamaLayer::attend(const Call& call, const Kept& kept, const ForwardSpace& space, const void* normed, void* to,
                        const void* add) const {
  const Shape& shape = call.shape;
  q_.forward(call, q_weight, normed, kept.qkv, space.scratch);
  k_.forward(call, k_weight, normed, keys(shape, kept.qkv), space.scratch);
  v_.forward(call, v_weight, normed, values(shape, kept.qkv), space.scratch);
  turn_heads(call, kept, space.heads);
  if (shape.mode == Mode::decode) {
    attention_decode(attention_shape(shape, call.tensor_rank), space.heads, kept.attention, call.position, call.cache,
                     space.attention);
  } else {
    attention_forward(attention_shape(shape, call.tensor_rank), space.heads, kept.attention, kept.lse, {},
                      call.first_sample, space.attention);
  }
  o_.forward(call, o_weight, kept.attention, to, space.scratch, add);
}

void LlamaLayer::forward(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  Kept kept{};
  if (shape.mode == Mode::train) kept = kept_in(call);
  BumpAllocator workspace(call.workspace);
  const ForwardSpace space = forward_space(workspace, shape, &kept);
  run(call, Forward{kept.stream,
                    space.normed,
                    {},
                    {},
                    [&](const void* normed, void* to, const void* add) { attend(call, kept, space, normed, to, add); },
                    [&](const void* normed) {
                      gate_.forward(call, gate_weight, normed, kept.gate, space.scratch);
                      up_.forward(call, up_weight, normed, kept.up, space.scratch);
                    },
                    [&](void* to, const void* add) {
                      swiglu(shape.type, kept.gate, kept.up, space.hidden, shape.rows() * ffn_);
                      down_.forward(call, down_weight, space.hidden, to, space.scratch, add);
                    }});
}

}  // namespace zrt::models
