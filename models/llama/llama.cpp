#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "models/common/embedding.h"
#include "models/common/expert_params.h"
#include "models/common/head.h"
#include "models/llama/layer.h"
#include "models/llama/rotary_frequencies.h"
#include "models/model.h"

namespace zrt::models {
namespace {

// Checks the keys that the rule reads; the others have their defaults, which are legal.
void check_rope_scaling(const RopeScaling& scaling) {
  if (scaling.rule == RopeScaling::Rule::none && scaling.factor != 1) {
    throw core::ConfigError(fmt::format(
        "model.rope_scaling has a factor of {} and no rule that stretches by it; legal is 1. Choose a rule, such as "
        "linear, or leave the factor out.",
        scaling.factor));
  }
  const bool legal = scaling.factor >= 1 && scaling.low_freq_factor > 0 &&
                     scaling.high_freq_factor > scaling.low_freq_factor && scaling.original_positions >= 1 &&
                     scaling.beta_slow > 0 && scaling.beta_fast >= scaling.beta_slow && rotary_scale(scaling) > 0 &&
                     std::isfinite(rotary_scale(scaling));
  if (legal) return;
  throw core::ConfigError(fmt::format(
      "model.rope_scaling has factor {}, low_freq_factor {}, high_freq_factor {}, original_max_position_embeddings {}, "
      "beta_fast {}, beta_slow {} and an attention_factor of {}; legal: a factor of at least 1, a low_freq_factor "
      "above "
      "0, a larger high_freq_factor, at least 1 position, a beta_slow above 0, a beta_fast of no less, and an "
      "attention_factor above 0. Llama 3.1 has 8, 1, 4 and 8192.",
      scaling.factor, scaling.low_freq_factor, scaling.high_freq_factor, scaling.original_positions, scaling.beta_fast,
      scaling.beta_slow, rotary_scale(scaling)));
}

void check_llama(const LlamaConfig& config) {
  check_positive("layers", config.layers);
  check_positive("hidden", config.hidden);
  check_positive("heads", config.heads);
  check_positive("kv_heads", config.kv_heads);
  check_positive("ffn", config.ffn);
  check_positive("sequence", config.sequence);
  check_positive("vocab", config.vocab);
  check_positive("head_dim", config.head_dim);
  if (config.head_dim % 2 != 0) {
    throw core::ConfigError(
        fmt::format("model.heads is {} and model.head_dim {}; rotary positions pair the halves of a head, so the "
                    "latter must be even. Choose another one.",
                    config.heads, config.head_dim));
  }
  if (config.heads % config.kv_heads != 0) {
    throw core::ConfigError(
        fmt::format("model.kv_heads is {}, which does not divide model.heads = {}: every head of keys and values "
                    "serves as many heads of queries. Choose a divisor of model.heads, or leave model.kv_heads out.",
                    config.kv_heads, config.heads));
  }
  if (!(config.rope_theta > 1) || !std::isfinite(config.rope_theta)) {
    throw core::ConfigError(
        fmt::format("model.rope_theta is {}, but must be above 1. 10000 is usual.", config.rope_theta));
  }
  check_rope_scaling(config.rope_scaling);
  check_experts(config.experts, config.layers, config.degrees);
  if (!(config.rms_norm_eps > 0 && config.rms_norm_eps < 1)) {
    throw core::ConfigError(
        fmt::format("model.rms_norm_eps is {}, but must lie between 0 and 1. 1e-5 is usual.", config.rms_norm_eps));
  }
}

}  // namespace

Model make_llama(const LlamaConfig& given) {
  LlamaConfig config = given;
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0 && config.heads > 0) {
    check_heads(config.heads, config.hidden);
    config.head_dim = config.hidden / config.heads;
  }
  if (config.ffn == 0) config.ffn = llama_ffn(config.hidden);
  check_llama(config);
  check_tensor(config.degrees.tensor, {{"model.heads", config.heads}, {"model.kv_heads", config.kv_heads}});
  Model model;
  model.type = "llama";
  model.hidden = config.hidden, model.sequence = config.sequence, model.vocab = config.vocab;
  model.layers = config.layers, model.tied = config.tied, model.degrees = config.degrees;
  model.adapters = config.adapters;
  model.attended = config.heads * config.head_dim;
  model.attention_share = config.windows.window > 0 ? config.windows.share(config.layers, config.sequence)
                                                    : config.sparse.share(config.layers, config.sequence);
  const BlockSizes sizes{config.hidden, config.sequence, config.vocab, 0, config.degrees};
  const std::string embedding = "model.embed_tokens.weight";
  const double scale = config.gemma ? std::sqrt(static_cast<double>(config.hidden)) : 1;
  model.blocks.push_back(
      make_embedding(sizes, {.block = "embed_tokens", .tokens = embedding, .positions = "", .scale = scale}));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    model.blocks.push_back(make_llama_layer(config, layer));
  }
  const Norm last{config.gemma ? NormKind::rms_from_one : NormKind::rms, config.hidden, config.rms_norm_eps};
  model.blocks.push_back(make_head(sizes, {.norm_name = "model.norm",
                                           .norm = last,
                                           .output_weight = config.tied ? embedding : "lm_head.weight",
                                           .cap = config.logit_cap}));
  return model;
}

}  // namespace zrt::models
