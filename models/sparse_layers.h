// Some layers of a model attend to what a sparse pattern keeps; the others attend to all keys. mGPT alternates: even
// layers, counted from 0, are sparse.
#pragma once
#include <cstdint>

#include "models/kernels/attention_pattern.h"

namespace zrt::models {

struct SparseLayers {
  enum class Which : uint8_t { all, even, odd };
  AttentionPattern pattern;  // dense: there are none
  Which layers = Which::all;

  AttentionPattern of(int64_t layer) const {
    const bool sparse = layers == Which::all || (layer % 2 == 0) == (layers == Which::even);
    return sparse ? pattern : AttentionPattern{.causal = pattern.causal};
  }
  // Returns the share of the scores that `count` dense layers have at T positions.
  double share(int64_t count, int64_t T) const {
    double sum = 0;
    const double kept = pattern.share(T);
    for (int64_t layer = 0; layer < count; ++layer) sum += of(layer).sparse() ? kept : 1;
    return sum / static_cast<double>(count);
  }
};

}  // namespace zrt::models
