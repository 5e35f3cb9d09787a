#include "models/bert/layer.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "models/bert/names.h"

namespace zrt::models {

BertLayer::BertLayer(const BertConfig& config, int64_t index)
    : GeluLayer({config.hidden, config.sequence, config.vocab, config.dropout, config.degrees},
                fmt::format("layer.{}", index), bert_norm(config), config.heads, index, config.sparse.of(index)) {
  const int64_t C = config.hidden;
  post_norm_ = !config.pre_norm;
  if (post_norm_ && index == 0) first_norm_site_ = embedding_dropout_site;

  const std::string prefix = bert_layer_prefix(index);
  // What is added to a residual stream without norms in it starts smaller, so that the stream does not grow with depth.
  const float small = config.pre_norm ? 0.02f / std::sqrt(2.0f * static_cast<float>(config.layers)) : 0.02f;
  constexpr bool shared = true;
  const auto add = [&](const std::string& name, int64_t in, int64_t out, float deviation, bool shares) {
    const Linear whole{.in = in, .out = out, .stored = Linear::Stored::out_in, .bias = true, .shared = shares};
    return add_product(params_, config.degrees.tensor, prefix + name, whole, deviation);
  };
  norm_.add_params(params_, bert_first_norm(config, index), shares_rows());
  for (const char* name : {"query", "key", "value"}) {
    Product strip = add(fmt::format("attention.self.{}", name), C, C, 0.02f, !shared);
    strip.linear.stride = 3 * attended_, strip.linear.joined = !strips_.empty();
    strip.column = static_cast<int64_t>(strips_.size()) * attended_;
    strips_.push_back(strip);
  }
  attention_out_ = add("attention.output.dense", C, C, small, shared);
  second_norm_weight_ = params_.size();
  norm_.add_params(params_, prefix + (config.pre_norm ? "ln" : "attention.output.LayerNorm"), shares_rows());
  mlp_in_ = add("intermediate.dense", C, 4 * C, 0.02f, !shared);
  mlp_out_ = add("output.dense", 4 * C, C, small, shared);
  mlp_in_.linear.erf = mlp_out_.linear.erf = true;
}

void BertLayer::decode(const Call&) const {
  throw core::Error(
      fmt::format("Block {} sees the tokens behind each token too, so it cannot make text token by token.", name_));
}

}  // namespace zrt::models
