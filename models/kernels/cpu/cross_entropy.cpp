// Losses of rows of logits and their gradients, over a whole vocabulary or a rank's part of one.
#include <algorithm>
#include <cfloat>

#include "core/parallel.h"
#include "models/kernels/cpu/dispatch.h"
#include "models/kernels/kernels.h"

namespace zrt::models::cpu {
namespace {

// The target's place among the V tokens from `first_token` on, or -1 where it is elsewhere.
int64_t own_target(int32_t target, int64_t first_token, int64_t V) {
  const int64_t v = target - first_token;
  return v >= 0 && v < V ? v : -1;
}

}  // namespace

void cross_entropy(DType type, void* logits, const int32_t* targets, int64_t rows, int64_t V, int64_t stride, float cap,
                   float gradient_scale, double* losses) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* row_logits = static_cast<T*>(logits) + row * stride;
        if (targets[row] < 0) {
          losses[row] = 0;
          if (gradient_scale != 0) std::fill(row_logits, row_logits + V, T{});
          continue;
        }
        losses[row] = typed_kernels<T>().cross_entropy(row_logits, V, targets[row], cap, gradient_scale);
      }
    });
  });
}

void logit_parts(DType type, const void* logits, const int32_t* targets, int64_t first_token, int64_t rows, int64_t V,
                 int64_t stride, LogitPart* parts) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        parts[row] = {-FLT_MAX, 0, 0};
        if (targets[row] < 0) continue;
        parts[row] = typed_kernels<T>().logit_part(static_cast<const T*>(logits) + row * stride, V,
                                                   own_target(targets[row], first_token, V));
      }
    });
  });
}

void cross_entropy_part(DType type, void* logits, const int32_t* targets, int64_t first_token, int64_t rows, int64_t V,
                        int64_t columns, int64_t stride, const LogitPart* parts, int64_t ranks, float cap,
                        float gradient_scale, double* losses) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* row_logits = static_cast<T*>(logits) + row * stride;
        const bool counts = targets[row] >= 0;
        losses[row] =
            counts ? typed_kernels<T>().cross_entropy_part(row_logits, V, own_target(targets[row], first_token, V),
                                                           parts + row, ranks, rows, cap, gradient_scale)
                   : 0;
        if (gradient_scale != 0) std::fill(row_logits + (counts ? V : 0), row_logits + columns, T{});
      }
    });
  });
}

void sum_losses(const double* losses, int64_t rows, double* sum) {
  double total = 0;
  for (int64_t row = 0; row < rows; ++row) total += losses[row];
  *sum = total;
}

}  // namespace zrt::models::cpu
