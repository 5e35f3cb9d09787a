// The places that samples are read into: S words each for one sample, B · S for those of a microbatch.
#pragma once
#include <cstdint>

namespace zrt::runtime::data {

struct SampleRows {
  int32_t* tokens = nullptr;
  int32_t* targets = nullptr;
  // Each token's position in its document, which attends to itself alone. Null: nobody asks, because a sample is one
  // document.
  int32_t* positions = nullptr;

  SampleRows from(int64_t row) const {
    return {tokens + row, targets + row, positions != nullptr ? positions + row : nullptr};
  }
};

}  // namespace zrt::runtime::data
