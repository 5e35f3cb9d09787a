#include "models/kernels/rounding.h"

#include <algorithm>
#include <array>

#include "core/parallel.h"
#include "models/kernels/cpu/dispatch.h"

namespace zrt::models::cpu {
namespace {

constexpr int64_t rounding_grain = 16384;  // elements per rounding_piece of work
constexpr int64_t rounding_piece = 512;    // fp32 numbers kept on the stack between two types

}  // namespace

void cast(DType from_type, const void* from, DType to_type, void* to, int64_t n) {
  with_type(from_type, [&](auto from_zero) {
    using From = decltype(from_zero);
    with_type(to_type, [&](auto to_zero) {
      using To = decltype(to_zero);
      core::parallel_for(n, rounding_grain, [&](int64_t begin, int64_t end) {
        float wide[rounding_piece];
        for (int64_t at = begin; at < end; at += rounding_piece) {
          const int64_t count = std::min(rounding_piece, end - at);
          typed_kernels<From>().widen(static_cast<const From*>(from) + at, wide, count);
          typed_kernels<To>().write(wide, static_cast<To*>(to) + at, false, count);
        }
      });
    });
  });
}

void round_stochastic(const float* x, core::bf16* y, const core::RngKey& key, uint64_t first, int64_t n) {
  core::parallel_for(n, rounding_grain, [&](int64_t begin, int64_t end) {
    std::array<uint32_t, 4> words{};
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t index = first + static_cast<uint64_t>(i);
      if (i == begin || (index & 3) == 0) words = core::philox(key, index >> 2);
      y[i] = core::to_bf16(x[i], words[index & 3]);
    }
  });
}

void split_add(const float* x, core::bf16* hi, uint16_t* lo, SumPart part, bool accumulate, int64_t n) {
  core::parallel_for(n, rounding_grain, [&](int64_t begin, int64_t end) {
    vector_kernels().split_add(x + begin, hi + begin, lo + begin, part == SumPart::first, accumulate,
                               part == SumPart::last, end - begin);
  });
}

}  // namespace zrt::models::cpu
