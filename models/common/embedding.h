// The first block: rows of the token embedding, with learned positions and dropout where the model has them.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "models/common/transformer_block.h"

namespace zrt::models {

struct EmbeddingNames {
  std::string block, tokens, positions;  // positions "": none, and then no dropout either
  uint32_t dropout_site = 0;
  // The name of two rows, of which the first is added to tokens up to the first `separator` of a sample and the second
  // to those behind it; "": none.
  std::string types = "";
  int32_t separator = 0;
  double scale = 1;  // of rows, in the compute type; without positions and types
};
std::unique_ptr<Block> make_embedding(const BlockSizes& sizes, const EmbeddingNames& names);

}  // namespace zrt::models
