// The places that samples are read into: S words each for one sample, B · S for those of a microbatch.
#pragma once
#include <cstdint>

namespace zrt::runtime::data {

struct SampleRows {
  int32_t* tokens = nullptr;
  int32_t* targets = nullptr;
  // Each token's position in its document, which attends to itself alone. Null: nobody asks, because all samples are
  // one document each.
  int32_t* positions = nullptr;

  // Fills positions, where somebody asks, with those of a sample that is one document.
  void count_positions(int64_t sequence) const {
    for (int64_t i = 0; positions != nullptr && i < sequence; ++i) positions[i] = static_cast<int32_t>(i);
  }
  SampleRows from(int64_t row) const {
    return {tokens + row, targets + row, positions != nullptr ? positions + row : nullptr};
  }
};

}  // namespace zrt::runtime::data
