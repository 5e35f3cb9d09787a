// Says which layers of a model attend to a window: the last so many positions up to a query's own. Others see all.
#pragma once
#include <cstdint>

#include "models/kernels/attention_pattern.h"

namespace zrt::models {

struct WindowLayers {
  int64_t window = 0;  // positions; 0: no layer has one
  int64_t period = 0;  // every so many layers, the last of each group attends to all; 0: none does
  int64_t first = 0;   // layers before it attend to all

  bool has(int64_t layer) const { return window > 0 && layer >= first && (period == 0 || (layer + 1) % period != 0); }
  AttentionPattern of(int64_t layer, int64_t T) const {
    return has(layer) ? AttentionPattern::of_window(window, T) : AttentionPattern{};
  }
  // Returns the share of the scores that `count` dense layers have at T positions.
  double share(int64_t count, int64_t T) const {
    double sum = 0;
    for (int64_t layer = 0; layer < count; ++layer) sum += of(layer, T).share(T);
    return sum / static_cast<double>(count);
  }
};

}  // namespace zrt::models
