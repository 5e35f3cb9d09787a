#include "tests/runtime/small_models.h"

#include "models/bert/bert.h"

namespace zrt::testing {

models::Model make_small(ModelType type, const SmallModel& small) {
  if (type == ModelType::gpt2) {
    return models::make_gpt2({.layers = small.layers,
                              .hidden = small.hidden,
                              .heads = small.heads,
                              .sequence = small.sequence,
                              .vocab = small.vocab,
                              .dropout = small.dropout,
                              .tied = small.tied,
                              .degrees = small.degrees,
                              .adapters = small.adapters});
  }
  if (type == ModelType::bert || type == ModelType::megatron_bert) {
    models::BertConfig config{.layers = small.layers,
                              .hidden = small.hidden,
                              .heads = small.heads,
                              .sequence = small.sequence,
                              .vocab = small.vocab};
    const auto last = static_cast<int32_t>(small.vocab - 1);
    config.masking.cls = last - 2, config.masking.separator = last - 1, config.masking.mask = last;
    config.masking.sentence_order = type == ModelType::bert;
    config.dropout = small.dropout, config.tied = small.tied, config.pre_norm = type == ModelType::megatron_bert;
    config.degrees = small.degrees, config.adapters = small.adapters;
    return models::make_bert(config);
  }
  // Twice as many heads of queries as of keys and values.
  models::LlamaConfig config{.layers = small.layers,
                             .hidden = small.hidden,
                             .heads = 2 * small.heads,
                             .kv_heads = small.heads,
                             .head_dim = 4,
                             .ffn = 53,
                             .sequence = small.sequence,
                             .vocab = small.vocab,
                             .tied = small.tied,
                             .head_norms = type == ModelType::qwen3,
                             .qkv_biases = type == ModelType::qwen2,
                             .degrees = small.degrees,
                             .adapters = small.adapters};
  if (type == ModelType::gemma) {
    config.gemma = config.head_norms = true, config.windows = {5, 2}, config.window_rope_theta = 100;
    config.query_scalar = 6, config.attention_cap = 2, config.logit_cap = 3;
  }
  return models::make_llama(config);
}

}  // namespace zrt::testing
