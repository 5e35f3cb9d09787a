#include "models/bert/bert.h"

#include <fmt/format.h>

#include "core/error.h"
#include "models/bert/layer.h"
#include "models/bert/names.h"
#include "models/common/dropout_site.h"
#include "models/common/embedding.h"
#include "models/common/head.h"

namespace zrt::models {
namespace {

void check_masking(const BertConfig& config) {
  const Masking& masking = config.masking;
  const auto check = [&](const char* key, int32_t id) {
    if (id >= 0 && id < config.vocab) return;
    throw core::ConfigError(
        fmt::format("model.{} is {}, outside the vocabulary 0 to {}. Set it to an id that no text "
                    "has, or leave it out.",
                    key, id, config.vocab - 1));
  };
  check("cls_token", masking.cls), check("separator_token", masking.separator), check("mask_token", masking.mask);
  if (masking.cls == masking.separator || masking.cls == masking.mask || masking.separator == masking.mask) {
    throw core::ConfigError(
        fmt::format("model.cls_token, model.separator_token and model.mask_token are {}, {} and {}, but must differ. "
                    "Leave them out for the last three ids of the vocabulary.",
                    masking.cls, masking.separator, masking.mask));
  }
  if (!(masking.rate > 0 && masking.rate < 1)) {
    throw core::ConfigError(
        fmt::format("model.mask_rate is {}, but must lie between 0 and 1. 0.15 is usual.", masking.rate));
  }
  const int64_t least = masking.sentence_order ? 5 : 3;
  if (config.sequence < least) {
    throw core::ConfigError(
        fmt::format("model.sequence is {}, but samples of [CLS], text and [SEP] have at least {} "
                    "tokens. Raise it.",
                    config.sequence, least));
  }
}

}  // namespace

Model make_bert(const BertConfig& config) {
  check_positive("layers", config.layers);
  check_positive("hidden", config.hidden);
  check_positive("heads", config.heads);
  check_positive("sequence", config.sequence);
  check_positive("vocab", config.vocab);
  check_heads(config.heads, config.hidden);
  check_tensor(config.degrees.tensor, {{"model.heads", config.heads}});
  check_masking(config);
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    throw core::ConfigError(fmt::format("model.dropout is {}, but must be at least 0 and below 1.", config.dropout));
  }
  Model model;
  model.type = config.pre_norm ? "megatron-bert" : "bert";
  model.hidden = config.hidden, model.sequence = config.sequence, model.vocab = config.vocab;
  model.layers = config.layers, model.tied = config.tied, model.degrees = config.degrees;
  model.adapters = config.adapters;
  model.masking = config.masking;
  model.attention_share = 2 * config.sparse.share(config.layers, config.sequence);  // queries see both sides
  BlockSizes sizes{config.hidden, config.sequence, config.vocab, config.dropout, config.degrees};
  const std::string tokens = "bert.embeddings.word_embeddings.weight";
  EmbeddingNames names{"embeddings", tokens, "bert.embeddings.position_embeddings.weight", embedding_dropout_site};
  names.types = "bert.embeddings.token_type_embeddings.weight", names.separator = config.masking.separator;
  BlockSizes embedding = sizes;
  if (!config.pre_norm) embedding.dropout = 0;  // it comes behind the norm, which the first layer begins with
  model.blocks.push_back(make_embedding(embedding, names));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    model.blocks.push_back(make_bert_layer(config, layer));
  }
  HeadParts head{bert_first_norm(config, config.layers), bert_norm(config),
                 config.tied ? tokens : "cls.predictions.decoder.weight"};
  head.output_bias = config.tied ? "cls.predictions.bias" : "cls.predictions.decoder.bias";
  head.transform = {"cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"};
  if (config.masking.sentence_order) head.order = {{"bert.pooler.dense", "cls.seq_relationship"}, config.masking};
  model.blocks.push_back(make_head(sizes, head));
  return model;
}

}  // namespace zrt::models
