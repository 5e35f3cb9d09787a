// The last block: final norm, in BERT a transform, output weights and loss. Logits exist for a chunk of rows at a time.
#pragma once
#include <memory>
#include <string>

#include "models/common/head_transform.h"
#include "models/common/norm.h"
#include "models/common/order_head.h"
#include "models/common/transformer_block.h"

namespace zrt::models {

struct HeadParts {
  std::string norm_name;
  Norm norm;
  std::string output_weight;            // (V, C); the embedding's name when tied
  std::string output_bias = "";         // (V); "": none
  HeadTransform::Names transform = {};  // "": none
  struct Order {
    OrderHead::Names names;
    Masking masking = {};
  };
  Order order = {};  // "": none
  float cap = 0;     // of logits: soft_cap()'s; 0: none
};
std::unique_ptr<Block> make_head(const BlockSizes& sizes, const HeadParts& parts);

}  // namespace zrt::models
