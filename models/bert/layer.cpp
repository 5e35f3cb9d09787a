#include "models/bert/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "models/bert/names.h"

namespace zrt::models {

BertLayer::BertLayer(const BertConfig& config, int64_t index)
    : Layer({config.hidden, config.sequence, config.vocab, config.dropout, config.tensor, config.sequence_parallel},
            fmt::format("layer.{}", index), bert_norm(config)),
      heads_(config.heads / config.tensor),
      all_heads_(config.heads),
      attended_(config.hidden / config.tensor),
      ffn_(sizes_.part(4 * config.hidden)),
      index_(index),
      pattern_(config.sparse.of(index)) {
  const int64_t C = config.hidden;
  const auto linear = [](int64_t in, int64_t out, int64_t stride, bool joined) {
    return Linear{in, out, Linear::Stored::out_in, true, stride, joined};
  };
  query_ = linear(C, attended_, 3 * attended_, false);
  key_ = value_ = linear(C, attended_, 3 * attended_, true);
  attention_out_ = linear(attended_, C, 0, false);
  mlp_in_ = linear(C, ffn_, 0, false), mlp_out_ = linear(ffn_, C, 0, false);
  mlp_in_.erf = mlp_out_.erf = true;
  attention_out_.shared = mlp_out_.shared = config.tensor > 1;
  post_norm_ = !config.pre_norm;
  if (post_norm_ && index == 0) first_norm_site_ = embedding_dropout_site;

  const std::string prefix = bert_layer_prefix(index);
  // dimension: of the weight, along which each rank has a part; its bias is cut only with the outputs.
  const auto add = [&](const char* name, int64_t out, int64_t in, float deviation, size_t dimension) {
    params_.push_back(
        sliced({prefix + name + ".weight", {out, in}, Init::normal, deviation}, dimension, config.tensor));
    Param bias{prefix + name + ".bias", {out}, Init::zeros};
    params_.push_back(dimension == 0 ? sliced(std::move(bias), 0, config.tensor) : std::move(bias));
  };
  // What is added to a residual stream without norms in it starts smaller, so that the stream does not grow with depth.
  const float small = config.pre_norm ? 0.02f / std::sqrt(2.0f * static_cast<float>(config.layers)) : 0.02f;
  first_norm_weight_ = norm_1_weight, second_norm_weight_ = norm_2_weight;
  norm_.add_params(params_, bert_first_norm(config, index), shares_rows());
  add("attention.self.query", C, C, 0.02f, 0);
  add("attention.self.key", C, C, 0.02f, 0);
  add("attention.self.value", C, C, 0.02f, 0);
  add("attention.output.dense", C, C, small, 1);
  norm_.add_params(params_, prefix + (config.pre_norm ? "ln" : "attention.output.LayerNorm"), shares_rows());
  add("intermediate.dense", 4 * C, C, 0.02f, 0);
  add("output.dense", C, 4 * C, small, 1);
}

AttentionShape BertLayer::attention_shape(const Shape& shape, int tensor_rank) const {
  AttentionShape heads{shape.B, shape.T, heads_, heads_, attended_ / heads_, shape.type};
  heads.dropout = shape.mode == Mode::train ? sizes_.dropout : 0;
  heads.all_heads = all_heads_, heads.first_head = tensor_rank * heads_;
  heads.pattern = pattern_;
  return heads;
}

std::vector<GemmSpec> BertLayer::products(const Shape& shape) const {
  std::vector<GemmSpec> all;
  for (const Linear& linear : linears()) {
    for (const GemmSpec& spec : linear.products(shape)) all.push_back(spec);
  }
  return all;
}

void BertLayer::keep(Kept& kept, size_t part, BumpAllocator& layout, const Shape& shape) const {
  Layer::keep(kept.stream, part, layout, shape);
  if (part == attention) {
    kept.lse = layout.take<float>(static_cast<uint64_t>(shape.rows() * heads_) * 4);
    kept.qkv = layout.take(bytes(shape, 3 * attended_)), kept.attention = layout.take(bytes(shape, attended_));
  }
  if (part == hidden) kept.hidden = layout.take(bytes(shape, ffn_));
}

BertLayer::Kept BertLayer::kept_in(const Call& call) const {
  Kept kept{};
  for (size_t part = 0; part < call.saved.size(); ++part) {
    if (call.saved[part] == nullptr) continue;
    BumpAllocator layout(call.saved[part]);
    keep(kept, part, layout, call.shape);
  }
  return kept;
}

// qkv and attention are dead when the MLP begins, so they share its space.
BertLayer::Kept BertLayer::kept_in_workspace(BumpAllocator& layout, const Shape& shape) const {
  Kept kept{};
  kept.stream.residual = layout.take(own_bytes(shape));
  BumpAllocator first = layout.overlay();
  kept.qkv = first.take(bytes(shape, 3 * attended_)), kept.attention = first.take(bytes(shape, attended_));
  kept.hidden = layout.take(bytes(shape, ffn_));
  layout.cover(first);
  return kept;
}

BertLayer::ForwardSpace BertLayer::forward_space(BumpAllocator& layout, const Shape& shape, Kept* kept) const {
  const uint64_t row = shares_rows() ? 0 : bytes(shape, sizes_.hidden);
  uint64_t scratch = 0;
  for (const Linear& linear : linears()) scratch = std::max(scratch, linear.forward_scratch(shape));
  ForwardSpace space{};
  space.scratch = layout.take<std::byte>(scratch);
  const Kept inner = shape.mode == Mode::train ? Kept{} : kept_in_workspace(layout, shape);
  if (kept != nullptr && shape.mode != Mode::train) *kept = inner;
  // What the MLP makes is added to the norm's output in a post-LN layer.
  if (post_norm_) space.normed = layout.take(row);
  BumpAllocator beside = layout.overlay(), gelu = layout.overlay();
  if (!post_norm_) space.normed = beside.take(row);
  space.attention = beside.take<std::byte>(attention_forward_workspace(attention_shape(shape)));
  // Outside training the input of GELU is not needed any more, so it works in place.
  space.gelu = shape.mode == Mode::train ? gelu.take(bytes(shape, ffn_)) : inner.hidden;
  layout.cover(beside);
  layout.cover(gelu);
  return space;
}

uint64_t BertLayer::saved_bytes(const Shape& shape, size_t part) const {
  if (shape.mode != Mode::train) return part == norm_2 ? own_bytes(shape) : 0;
  BumpAllocator layout;
  Kept kept{};
  keep(kept, part, layout, shape);
  return layout.bytes();
}

uint64_t BertLayer::forward_workspace_bytes(const Shape& shape) const {
  check_shape(shape);
  BumpAllocator layout;
  forward_space(layout, shape, nullptr);
  return layout.bytes();
}

double BertLayer::attention_flops(const Shape& shape, Parts parts) const {
  return parts.has(attention) ? heads_flops(shape, attended_, pattern_) : 0;
}

double BertLayer::forward_flops(const Shape& shape, Parts parts) const {
  const double R = static_cast<double>(shape.rows()), C = static_cast<double>(sizes_.hidden);
  const double A = static_cast<double>(attended_), F = static_cast<double>(ffn_);
  double flops = attention_flops(shape, parts);
  if (parts.has(attention)) flops += 2 * R * 4 * C * A;
  if (parts.has(hidden)) flops += 2 * R * C * F;
  if (parts.has(projection)) flops += 2 * R * C * F;
  return flops;
}

// add: what the projection adds, or null.
void BertLayer::attend(const Call& call, const Kept& kept, const ForwardSpace& space, const void* normed, void* to,
                       const void* add) const {
  const Shape& shape = call.shape;
  query_.forward(call, query_weight, normed, kept.qkv, space.scratch);
  key_.forward(call, key_weight, normed, strip(shape, kept.qkv, 1), space.scratch);
  value_.forward(call, value_weight, normed, strip(shape, kept.qkv, 2), space.scratch);
  attention_forward(attention_shape(shape, call.tensor_rank), kept.qkv, kept.attention, kept.lse,
                    dropped(call, DropoutSite::attention), call.first_sample, space.attention);
  attention_out_.forward(call, attention_out_weight, kept.attention, to, space.scratch, add);
}

void BertLayer::forward(const Call& call) const {
  check_shape(call.shape);
  Kept kept{};
  if (call.shape.mode == Mode::train) kept = kept_in(call);
  BumpAllocator workspace(call.workspace);
  const ForwardSpace space = forward_space(workspace, call.shape, &kept);
  run(call, Forward{kept.stream, space.normed, dropped(call, DropoutSite::attention_output),
                    dropped(call, DropoutSite::mlp_output),
                    [&](const void* normed, void* to, const void* add) { attend(call, kept, space, normed, to, add); },
                    [&](const void* normed) {
                      mlp_in_.forward_gelu(call, mlp_in_weight, normed, kept.hidden, space.gelu, space.scratch);
                    },
                    [&](void* to, const void* add) {
                      mlp_out_.forward(call, mlp_out_weight, space.gelu, to, space.scratch, add);
                    }});
}

void BertLayer::decode(const Call&) const {
  throw core::Error(
      fmt::format("Block {} sees the tokens behind each token too, so it cannot make text token by token.", name_));
}

}  // namespace zrt::models
