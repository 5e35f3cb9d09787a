// A BERT layer, post-LN or pre-LN (models/common/layer.h): attention to all tokens of a sample, GELU by the error
// function. Linear weights are stored (out, in); queries, keys and values have one each.
#pragma once
#include "models/bert/bert.h"
#include "models/common/gelu_layer.h"

namespace zrt::models {

class BertLayer : public GeluLayer {
 public:
  BertLayer(const BertConfig& config, int64_t index);
  void decode(const Call& call) const override;  // throws core::Error: there is no next token
};

}  // namespace zrt::models
