// Sums of columns in two steps, so that their order never depends on the device: every part of the rows leaves its sums
// in a workspace, then the parts are added in order, in fp64.
#pragma once
#include <cstdint>

#include "models/kernels/kernels.h"

namespace zrt::models::cuda {

// target[c] = [target[c] +] the sum of partials[part · stride + c] over the parts, for c < n; and `second`, unless it
// has no data, of those n columns further on. partials: fp32.
void add_partials(const float* partials, int64_t parts, int64_t stride, int64_t n, const GradTarget& target,
                  const GradTarget& second = {});

}  // namespace zrt::models::cuda
