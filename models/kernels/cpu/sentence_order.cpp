#include "models/kernels/sentence_order.h"

#include <algorithm>
#include <cmath>

#include "core/kernel_convert.h"
#include "models/kernels/cpu/dispatch.h"
#include "models/masking.h"

namespace zrt::models::cpu {
void tanh_of(DType type, void* x, int64_t n) {
  with_type(type, [&](auto zero) {
    auto* values = static_cast<decltype(zero)*>(x);
    for (int64_t i = 0; i < n; ++i) core::narrow(std::tanh(core::widen(values[i])), values[i]);
  });
}

void tanh_backward(DType type, const void* y, void* d, int64_t n) {
  with_type(type, [&](auto zero) {
    const auto* values = static_cast<const decltype(zero)*>(y);
    auto* gradients = static_cast<decltype(zero)*>(d);
    for (int64_t i = 0; i < n; ++i) {
      const float v = core::widen(values[i]);
      core::narrow(core::widen(gradients[i]) * (1.0f - v * v), gradients[i]);
    }
  });
}

void order_loss(DType type, const void* logits, const OrderShape& shape, const int32_t* targets, double weight,
                float gradient_scale, double* losses, void* d) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < shape.B; ++b) {
      const T* row = static_cast<const T*>(logits) + b * shape.stride;
      const int32_t label = in_order - targets[b * shape.T];
      const bool counted = label == 0 || label == 1;
      // The other label's logit is so much above this one's.
      const float other = counted ? core::widen(row[1 - label]) - core::widen(row[label]) : 0;
      const float e = std::exp(-std::abs(other)), wrong = other > 0 ? 1 / (1 + e) : e / (1 + e);
      losses[b] = counted ? weight * static_cast<double>(std::max(other, 0.0f) + std::log1p(e)) : 0;
      if (d == nullptr) continue;
      T* to = static_cast<T*>(d) + 2 * b;
      for (int32_t v = 0; v < 2; ++v)
        core::narrow(!counted ? 0 : (v == label ? -wrong : wrong) * gradient_scale, to[v]);
    }
  });
}

}  // namespace zrt::models::cpu
