// A model is an ordered list of blocks with the facts the runtime needs about them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "models/block.h"

namespace zrt::models {

struct Gpt2Config {
  int64_t layers = 12, hidden = 768, heads = 12, sequence = 1024, vocab = 50304;
  float dropout = 0;
  bool tied = true;
};

struct Model {
  std::string type;  // "gpt2"
  int64_t hidden = 0, sequence = 0, vocab = 0, layers = 0;
  bool tied = false;
  std::vector<std::unique_ptr<Block>> blocks;  // first: embedding; last: head

  // Distinct parameters in canonical order (first use), as (block, index into its params()).
  struct ParamRef {
    size_t block, index;
  };
  std::vector<ParamRef> canonical_params() const;
  int64_t parameters() const;      // elements of the distinct parameters
  double flops_per_token() const;  // 6 N + 6 · layers · hidden · T, N without position embeddings
};

// Throws ConfigError (naming model.heads …) when sizes contradict.
Model make_gpt2(const Gpt2Config& config);

}  // namespace zrt::models
