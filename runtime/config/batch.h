// The batch triple of DeepSpeed: train_batch_size = micro batch x accumulation steps x data-parallel ranks.
#pragma once
#include <cstdint>
#include <optional>

namespace zrt::runtime {

struct BatchConfig {
  int64_t train = 1;         // samples per optimizer step over all data-parallel ranks
  int64_t micro = 1;         // samples per rank per forward and backward
  int64_t accumulation = 1;  // microbatches per rank and optimizer step
};

// Infers what is missing: from two the third; from the train batch alone one microbatch; from the micro batch alone one
// microbatch. Where neither is given, a microbatch is one sample. Throws ConfigError, naming the four numbers, when a
// number is not positive or when the product is wrong.
BatchConfig resolve_batch(std::optional<int64_t> train, std::optional<int64_t> micro,
                          std::optional<int64_t> accumulation, int64_t data_ranks);

}  // namespace zrt::runtime
