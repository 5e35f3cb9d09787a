// Hugging Face's names for the parameters of both arrangements. A post-LN layer begins with the norm behind what is
// before it, so that norm is the last one of the layer before, or the embedding's; the head begins with the one behind
// the last.
#pragma once
#include <string>

#include "models/bert/bert.h"
#include "models/common/norm.h"

namespace zrt::models {

inline Norm bert_norm(const BertConfig& config) {
  return {NormKind::layer, config.hidden, 1e-12f};
}

inline std::string bert_layer_prefix(int64_t layer) {
  return "bert.encoder.layer." + std::to_string(layer) + ".";
}

// Returns the name of the first norm of a layer, or for layer config.layers of the head's.
inline std::string bert_first_norm(const BertConfig& config, int64_t layer) {
  if (config.pre_norm) return layer < config.layers ? bert_layer_prefix(layer) + "attention.ln" : "bert.encoder.ln";
  return layer == 0 ? "bert.embeddings.LayerNorm" : bert_layer_prefix(layer - 1) + "output.LayerNorm";
}

}  // namespace zrt::models
