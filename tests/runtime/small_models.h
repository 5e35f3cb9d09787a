// Small models of every type, for runs on any mesh: neither the vocabulary nor Llama's feed-forward width divides by 2,
// 3 or 4.
#pragma once
#include "models/model.h"

namespace zrt::testing {

enum class ModelType { gpt2, llama, qwen3, bert, megatron_bert, qwen2, gemma };
inline constexpr ModelType model_types[] = {ModelType::gpt2, ModelType::llama,         ModelType::qwen3,
                                            ModelType::bert, ModelType::megatron_bert, ModelType::qwen2,
                                            ModelType::gemma};

struct SmallModel {
  int64_t layers = 2, hidden = 48, heads = 12, sequence = 12, vocab = 61;
  float dropout = 0.1f;  // of models that have it
  bool tied = true;
  models::Degrees degrees = {};
  models::Adapters adapters = {};
};
// gemma has all that Gemma 2 and Gemma 3 have, soft caps beside norms of heads. bert has BERT's second loss, the order
// of sentences; megatron_bert has its norms in front.
models::Model make_small(ModelType type, const SmallModel& small);

}  // namespace zrt::testing
