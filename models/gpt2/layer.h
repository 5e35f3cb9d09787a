// A GPT-2 layer (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): layer norm before
// attention and before the MLP, GELU with the tanh approximation. Parameter names and shapes are Hugging Face's; linear
// weights are stored (in, out), and one of them makes queries, keys and values.
#pragma once
#include <memory>

#include "models/model.h"

namespace zrt::models {

std::unique_ptr<Block> make_gpt2_layer(const Gpt2Config& config, int64_t index);

}  // namespace zrt::models
