// A BERT layer, post-LN or pre-LN (models/common/layer.h): attention to all tokens of a sample, GELU by the error
// function. Linear weights are stored (out, in); queries, keys and values have one each.
#pragma once
#include <memory>

#include "models/bert/bert.h"

namespace zrt::models {

std::unique_ptr<Block> make_bert_layer(const BertConfig& config, int64_t index);

}  // namespace zrt::models
