// Attention to a window of the last positions, with capped scores and with scores of another scale.
#include "tests/models/attention_check.h"

namespace zrt::attention_window_test {

using namespace zrt::attention_check;

TEST_CASE("windows match naive fp64 attention over the last positions") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const float dropout = GENERATE(0.0f, 0.25f);
  for (const int64_t window : {1, 2, 15, 16, 17, 18, 33, 40, 200}) {
    check({1, 45, 4, 2, 8, type, dropout, 0, 0, AttentionPattern::of_window(window, 45)});
    if (dropout == 0) check({2, 230, 3, 1, 24, type, dropout, 0, 0, AttentionPattern::of_window(window, 230)});
  }
  check({1, 300, 4, 2, 64, type, dropout, 0, 0, AttentionPattern::of_window(100, 300)});
  check({1, 150, 2, 1, 128, type, 0, 0, 0, AttentionPattern::of_window(50, 150)});
  check({1, 130, 2, 1, 256, type, 0, 0, 0, AttentionPattern::of_window(50, 130)});
}

TEST_CASE("a window keeps the blocks that hold a position that it sees, and all of a sequence that is no longer") {
  for (const int64_t window : {1, 2, 15, 16, 17, 18, 33, 40, 299}) {
    const AttentionPattern pattern = AttentionPattern::of_window(window, 300);
    const int blocks = pattern.blocks(300);
    const HeadPattern kept = pattern.of(0, blocks);
    for (int q = 0; q < blocks; ++q) {
      for (int k = 0; k <= q; ++k) {
        const int apart = 16 * (q - k) - 15;  // the first query and the last key
        CHECK(kept.keeps(q, k) == (apart < window));
      }
    }
    CHECK(pattern.first_key(299) == 300 - window);
    CHECK(pattern.first_key(0) == 0);
  }
  CHECK(AttentionPattern::of_window(300, 300) == AttentionPattern{});
}

TEST_CASE("one new token attends to its window alone, however many tokens are before it") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  const int64_t T = 600, window = GENERATE(1, 40, 256, 300);
  const AttentionShape s{1, T, 2, 1, 8, type, 0, 0, 0, AttentionPattern::of_window(window, T)};
  const KernelBuffer qkv = KernelBuffer::random(type, T * s.row());
  const Doubles expected = reference(s, qkv, KernelBuffer::random(type, T * s.C()), {}, 0).out;
  KernelBuffer cache(type, 2 * T * s.width);  // keys, then values
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t i = 0; i < 2 * s.width; ++i) {
      const int64_t of_values = i / s.width;
      cache.set((of_values * T + t) * s.width + i % s.width, static_cast<float>(qkv.at(t * s.row() + s.C() + i)));
    }
  }
  for (const int64_t t : {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{295}, int64_t{296}, int64_t{511}, T - 1}) {
    CAPTURE(window, t, core::dtype_name(type));
    KernelBuffer row(type, s.row()), out(type, s.C());
    KernelBuffer workspace = KernelBuffer::random(DType::f32, static_cast<int64_t>(attention_decode_workspace(s) / 4));
    for (int64_t i = 0; i < s.row(); ++i) row.set(i, static_cast<float>(qkv.at(t * s.row() + i)));
    attention_decode(s, row.data(), out.data(), t, static_cast<std::byte*>(cache.data()),
                     static_cast<std::byte*>(workspace.data()));
    const Doubles last(expected.begin() + t * s.C(), expected.begin() + (t + 1) * s.C());
    // One row's norm may be small: it is allowed twice what a whole tensor is.
    CHECK(error_of(out, last) < 2 * tolerance(type));
  }
}

TEST_CASE("capped scores and scores of another scale match naive fp64 attention") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const float dropout = GENERATE(0.0f, 0.25f);
  const AttentionPattern pattern = GENERATE(AttentionPattern{}, AttentionPattern::of_window(20, 131));
  for (const float cap : {0.0f, 0.7f, 30.0f}) {
    check({1, 131, 4, 2, 24, type, dropout, 0, 0, pattern, 5, cap});
    check({1, 131, 2, 2, 64, type, dropout, 0, 0, pattern, 0, cap});
  }
}

}  // namespace zrt::attention_window_test
