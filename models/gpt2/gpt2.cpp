#include <fmt/format.h>

#include "core/error.h"
#include "models/common/dropout_site.h"
#include "models/common/embedding.h"
#include "models/common/expert_params.h"
#include "models/common/head.h"
#include "models/gpt2/layer.h"
#include "models/model.h"

namespace zrt::models {

Model make_gpt2(const Gpt2Config& config) {
  check_positive("layers", config.layers);
  check_positive("hidden", config.hidden);
  check_positive("heads", config.heads);
  check_positive("sequence", config.sequence);
  check_positive("vocab", config.vocab);
  check_heads(config.heads, config.hidden);
  check_tensor(config.degrees.tensor, {{"model.heads", config.heads}});
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    throw core::ConfigError(fmt::format("model.dropout is {}, but must be at least 0 and below 1.", config.dropout));
  }
  check_experts(config.experts, config.layers, config.degrees);
  Model model;
  model.type = "gpt2";
  model.hidden = config.hidden, model.sequence = config.sequence, model.vocab = config.vocab;
  model.layers = config.layers, model.tied = config.tied, model.degrees = config.degrees;
  model.adapters = config.adapters;
  model.attention_share = config.sparse.share(config.layers, config.sequence);
  const BlockSizes sizes{config.hidden, config.sequence, config.vocab, config.dropout, config.degrees};
  model.blocks.push_back(make_embedding(sizes, {"wte", "wte.weight", "wpe.weight", embedding_dropout_site}));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    model.blocks.push_back(make_gpt2_layer(config, layer));
  }
  model.blocks.push_back(make_head(
      sizes, {"ln_f", {NormKind::layer, config.hidden, 1e-5f}, config.tied ? "wte.weight" : "lm_head.weight"}));
  return model;
}

}  // namespace zrt::models
