// A GPT-2 layer (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): layer norm before
// attention and before the MLP, GELU with the tanh approximation. Parameter names and shapes are Hugging Face's; linear
// weights are stored (in, out), and one of them makes queries, keys and values.
#pragma once
#include "models/common/gelu_layer.h"
#include "models/model.h"

namespace zrt::models {

class Gpt2Layer : public GeluLayer {
 public:
  Gpt2Layer(const Gpt2Config& config, int64_t index);
  uint64_t cache_bytes(const Shape& shape) const override { return attention_cache(attention_shape(shape)); }
};

}  // namespace zrt::models
