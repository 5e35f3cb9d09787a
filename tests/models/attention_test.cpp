#include "models/kernels/attention.h"

#include <algorithm>

#include "catch.h"
#include "core/parallel.h"
#include "tests/models/kernel_data.h"

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;

namespace {

size_t index(int64_t i) {
  return static_cast<size_t>(i);
}

struct Reference {
  Doubles out, lse, d_qkv;
};

// Naive attention with the whole (T, T) matrix in fp64.
Reference reference(const AttentionShape& s, const KernelBuffer& qkv, const KernelBuffer& d_out, const Dropout& dropout,
                    uint64_t first_sample) {
  const int64_t T = s.T, C = s.C(), W = s.width, row = s.row();
  const double scale = 1 / std::sqrt(static_cast<double>(W));
  Reference r{Doubles(index(s.B * T * C)), Doubles(index(s.B * s.heads * T)), Doubles(index(s.B * T * row))};
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t shared = h / (s.heads / s.kv_heads) * W;
      const auto at = [&](int64_t t, int64_t part, int64_t i) {
        return (b * T + t) * row + (part == 0 ? h * W : C + (part - 1) * s.kv_heads * W + shared) + i;
      };
      for (int64_t q = 0; q < T; ++q) {
        Doubles p(index(q + 1)), mask(index(q + 1), 1), dp(index(q + 1));
        double sum = 0, mean = 0;
        for (int64_t k = 0; k <= q; ++k) {
          double score = 0;
          for (int64_t i = 0; i < W; ++i) score += qkv.at(at(q, 0, i)) * qkv.at(at(k, 1, i));
          sum += p[index(k)] = std::exp(score * scale);
          if (s.dropout > 0) {
            const uint64_t element = (((first_sample + static_cast<uint64_t>(b)) * static_cast<uint64_t>(s.heads) +
                                       static_cast<uint64_t>(h)) *
                                          static_cast<uint64_t>(T) +
                                      static_cast<uint64_t>(q)) *
                                         static_cast<uint64_t>(T) +
                                     static_cast<uint64_t>(k);
            const float u = zrt::core::uniform(zrt::core::random_word(dropout.key, element));
            mask[index(k)] = u >= s.dropout ? 1 / (1 - static_cast<double>(s.dropout)) : 0;
          }
        }
        r.lse[index((b * s.heads + h) * T + q)] = std::log(sum);
        for (int64_t k = 0; k <= q; ++k) {
          p[index(k)] /= sum;
          for (int64_t i = 0; i < W; ++i) {
            const int64_t o = (b * T + q) * C + h * W + i;
            r.out[index(o)] += p[index(k)] * mask[index(k)] * qkv.at(at(k, 2, i));
            r.d_qkv[index(at(k, 2, i))] += p[index(k)] * mask[index(k)] * d_out.at(o);
            dp[index(k)] += mask[index(k)] * d_out.at(o) * qkv.at(at(k, 2, i));
          }
          mean += p[index(k)] * dp[index(k)];
        }
        for (int64_t k = 0; k <= q; ++k) {
          const double ds = p[index(k)] * (dp[index(k)] - mean) * scale;
          for (int64_t i = 0; i < W; ++i) {
            r.d_qkv[index(at(q, 0, i))] += ds * qkv.at(at(k, 1, i));
            r.d_qkv[index(at(k, 1, i))] += ds * qkv.at(at(q, 0, i));
          }
        }
      }
    }
  }
  return r;
}

struct Result {
  KernelBuffer out, lse, d_qkv;
};

Result run(const AttentionShape& s, const KernelBuffer& qkv, const KernelBuffer& d_out, const Dropout& dropout,
           uint64_t first_sample) {
  Result r{{s.type, s.B * s.T * s.C()}, {DType::f32, s.B * s.heads * s.T}, {s.type, s.B * s.T * s.row()}};
  // Random contents, so that whatever a kernel reads before writing changes from call to call.
  KernelBuffer forward = KernelBuffer::random(DType::f32, static_cast<int64_t>(attention_forward_workspace(s) / 4 + 1));
  KernelBuffer backward =
      KernelBuffer::random(DType::f32, static_cast<int64_t>(attention_backward_workspace(s) / 4 + 1));
  attention_forward(s, qkv.data(), r.out.data(), r.lse.floats(), dropout, first_sample,
                    static_cast<std::byte*>(forward.data()));
  attention_backward(s, qkv.data(), r.out.data(), r.lse.floats(), d_out.data(), r.d_qkv.data(), dropout, first_sample,
                     static_cast<std::byte*>(backward.data()));
  return r;
}

void check(const AttentionShape& s) {
  INFO("B " << s.B << " T " << s.T << " heads " << s.heads << "/" << s.kv_heads << " width " << s.width << " dropout "
            << s.dropout);
  const KernelBuffer qkv = KernelBuffer::random(s.type, s.B * s.T * s.row(), 2);
  const KernelBuffer d_out = KernelBuffer::random(s.type, s.B * s.T * s.C());
  const Dropout dropout{{11, 12, 13}, s.dropout};
  const Reference expected = reference(s, qkv, d_out, dropout, 5);
  const Result got = run(s, qkv, d_out, dropout, 5);
  const double limit = s.type == DType::f32 ? 1e-6 : 6e-3;
  CHECK(error_of(got.out, expected.out) < limit);
  double worst = 0;
  for (int64_t i = 0; i < got.lse.size(); ++i) {
    worst = std::max(worst, std::abs(got.lse.at(i) - expected.lse[index(i)]) / (1 + std::abs(expected.lse[index(i)])));
  }
  CHECK(worst < 3e-6);
  CHECK(error_of(got.d_qkv, expected.d_qkv) < limit);
  const Result again = run(s, qkv, d_out, dropout, 5);
  CHECK(again.out == got.out);
  CHECK(again.d_qkv == got.d_qkv);
  // Heads are independent and their products single-threaded: threads change nothing.
  const int threads = zrt::core::threads();
  zrt::core::set_threads(2);
  const Result two = run(s, qkv, d_out, dropout, 5);
  zrt::core::set_threads(threads);
  CHECK(two.out == got.out);
  CHECK(two.lse == got.lse);
  CHECK(two.d_qkv == got.d_qkv);
}

}  // namespace

TEST_CASE("attention matches naive fp64 attention at lengths that no tile divides") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const float dropout = GENERATE(0.0f, 0.25f);
  check({1, 1, 1, 1, 4, type, dropout});
  check({2, 13, 3, 3, 5, type, dropout});
  check({3, 128, 1, 1, 16, type, dropout});
  check({1, 131, 2, 2, 64, type, dropout});
  check({1, 300, 2, 2, 24, type, dropout});
}

TEST_CASE("heads that share keys and values match naive fp64 attention") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const float dropout = GENERATE(0.0f, 0.25f);
  check({1, 1, 2, 1, 4, type, dropout});
  check({2, 13, 4, 2, 5, type, dropout});
  check({1, 131, 6, 2, 16, type, dropout});
  check({2, 300, 3, 1, 24, type, dropout});
}

TEST_CASE("attention of one new token equals the last row of attention over all of them") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const AttentionShape s{2, 37, 6, GENERATE(1, 3, 6), 10, type, 0};
  zrt::core::set_threads(GENERATE(1, 2));
  const int64_t C = s.C(), width = s.row();
  const KernelBuffer qkv = KernelBuffer::random(type, s.B * s.T * width);
  const KernelBuffer d_out = KernelBuffer::random(type, s.B * s.T * C);
  const Doubles expected = reference(s, qkv, d_out, {}, 0).out;
  KernelBuffer cache(DType::bf16, static_cast<int64_t>(attention_cache(s) / 2));
  for (int64_t t = 0; t < s.T; ++t) {
    KernelBuffer row(type, s.B * width), out(type, s.B * C);
    KernelBuffer workspace = KernelBuffer::random(DType::f32, static_cast<int64_t>(attention_decode_workspace(s) / 4));
    Doubles last;
    for (int64_t b = 0; b < s.B; ++b) {
      for (int64_t i = 0; i < width; ++i) row.set(b * width + i, static_cast<float>(qkv.at((b * s.T + t) * width + i)));
      for (int64_t i = 0; i < C; ++i) last.push_back(expected[index((b * s.T + t) * C + i)]);
    }
    attention_decode(s, row.data(), out.data(), t, static_cast<std::byte*>(cache.data()),
                     static_cast<std::byte*>(workspace.data()));
    CHECK(error_of(out, last) < tolerance(type));
  }
  zrt::core::set_threads(1);
}
