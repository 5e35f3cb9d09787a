#include "models/bert/layer.h"

#include <fmt/format.h>

#include <cmath>

#include "models/bert/names.h"
#include "models/common/gelu_mlp.h"
#include "models/common/layer.h"

namespace zrt::models {

std::unique_ptr<Block> make_bert_layer(const BertConfig& config, int64_t index) {
  const int64_t C = config.hidden;
  const std::string prefix = bert_layer_prefix(index);
  // Weights of what is added to a residual stream without norms in it start smaller, so that the stream does not grow
  // with depth.
  const float small = config.pre_norm ? 0.02f / std::sqrt(2.0f * static_cast<float>(config.layers)) : 0.02f;
  constexpr bool shared = true;
  LayerForm form{.sizes = {C, config.sequence, config.vocab, config.dropout, config.degrees, config.adapters},
                 .name = fmt::format("layer.{}", index),
                 .norm = bert_norm(config),
                 .post_norm = !config.pre_norm,
                 .dropout_number = index};
  if (form.post_norm && index == 0) form.first_norm_site = embedding_dropout_site;
  const auto add = [&](const char* name, int64_t in, int64_t out, float deviation, bool shares) {
    const Linear whole{.in = in, .out = out, .stored = Linear::Stored::out_in, .bias = true, .shared = shares};
    return form.add_product(prefix + name, whole, deviation);
  };
  form.attention = Attention(form.sizes, config.heads, config.heads, C / config.heads, config.sparse.of(index));
  form.first_norm_weight = form.add_norm(bert_first_norm(config, index));
  const Product queries = add("attention.self.query", C, C, 0.02f, !shared);
  const Product keys = add("attention.self.key", C, C, 0.02f, !shared);
  const Product values = add("attention.self.value", C, C, 0.02f, !shared);
  form.attention.strips = side_by_side({queries, keys, values});
  form.attention.output = add("attention.output.dense", C, C, small, shared);
  form.second_norm_weight = form.add_norm(prefix + (config.pre_norm ? "ln" : "attention.output.LayerNorm"));
  Product in = add("intermediate.dense", C, 4 * C, 0.02f, !shared);
  Product out = add("output.dense", 4 * C, C, small, shared);
  in.linear.erf = out.linear.erf = true;
  form.mlp = std::make_unique<GeluMlp>(in, out);
  return std::make_unique<Layer>(std::move(form));
}

}  // namespace zrt::models
