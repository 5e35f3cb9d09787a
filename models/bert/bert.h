// BERT (Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", 2019):
// tokens see both sides, and the model names those that are hidden. Two arrangements: norms behind the sums of the
// residual stream, as published (post-LN), and in front of attention and MLP, which Megatron-LM found deep networks to
// need (Shoeybi et al., "Megatron-LM", 2019, section 5.3). Parameter names and shapes are those of Hugging Face's BERT
// and MegatronBERT.
#pragma once
#include <cstdint>

#include "models/masking.h"
#include "models/model.h"

namespace zrt::models {

struct BertConfig {
  int64_t layers = 12, hidden = 768, heads = 12, sequence = 512, vocab = 30522;
  float dropout = 0;
  bool tied = true;
  bool pre_norm = false;
  Masking masking = {};
  Degrees degrees = {};
  SparseLayers sparse = {.pattern = {.causal = false}};
  Adapters adapters = {};
};

// Throws ConfigError (naming model.heads …) when sizes contradict.
Model make_bert(const BertConfig& config);

}  // namespace zrt::models
