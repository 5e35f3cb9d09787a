#include "models/kernels/scaling.h"

#include "core/parallel.h"
#include "models/kernels/cpu/dispatch.h"

namespace zrt::models::cpu {
namespace {

constexpr int64_t scaling_grain = 16384;  // elements per piece of work

}  // namespace

void scale_elements(DType type, const void* x, float factor, void* y, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, scaling_grain, [&](int64_t begin, int64_t end) {
      typed_kernels<T>().scale(static_cast<const T*>(x) + begin, factor, static_cast<T*>(y) + begin, end - begin);
    });
  });
}

void soft_cap(DType type, void* x, float cap, int64_t n) {
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    core::parallel_for(n, scaling_grain, [&](int64_t begin, int64_t end) {
      typed_kernels<T>().soft_cap(static_cast<T*>(x) + begin, cap, end - begin);
    });
  });
}

}  // namespace zrt::models::cpu
