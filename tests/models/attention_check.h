// Attention of the kernels beside naive attention in fp64, for the tests of both.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "catch.h"
#include "core/parallel.h"
#include "models/kernels/attention.h"
#include "tests/models/kernel_data.h"
#include "tests/models/sees.h"

namespace zrt::attention_check {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;

inline size_t index(int64_t i) {
  return static_cast<size_t>(i);
}

struct Reference {
  Doubles out, lse, d_qkv;
  Doubles out_error, d_qkv_error;  // what roundings to the type cost each element at most
};

// Half a unit of the type's last place, relative to a value: what one rounding costs at most.
inline double roundoff(DType type) {
  return type == DType::f32 ? 0x1p-24 : type == DType::bf16 ? 0x1p-8 : 0x1p-11;
}

// Naive attention with the whole (T, T) matrix in fp64.
//
// The bounds follow kernels that keep sums in fp32 and round to the type, at most u of the value each: the dropped
// probabilities p, the output, ds, and the results. The backward pass takes the mean of dp, the sum of out · d_out,
// from the rounded output, so its error is Σ |d_out| · (error of out), and each ds has p · scale times that: where one
// key is visible ds itself is 0 and all that is left of it is this error.
inline Reference reference(const AttentionShape& s, const KernelBuffer& qkv_buffer, const KernelBuffer& d_out_buffer,
                           const Dropout& dropout, uint64_t first_sample, const std::vector<int32_t>& positions = {}) {
  const Doubles qkv_values = doubles(qkv_buffer), d_out_values = doubles(d_out_buffer);
  const double *const qkv = qkv_values.data(), *const d_out = d_out_values.data();
  const int64_t T = s.T, C = s.C(), W = s.width, row = s.row();
  const double scale = 1 / std::sqrt(s.scale_width == 0 ? static_cast<double>(W) : s.scale_width);
  const double cap = static_cast<double>(s.cap);
  const double u = roundoff(s.type);
  const size_t outputs = index(s.B * T * C), inputs = index(s.B * T * row);
  Reference r{Doubles(outputs), Doubles(index(s.B * s.heads * T)), Doubles(inputs), Doubles(outputs), Doubles(inputs)};
  for (int64_t b = 0; b < s.B; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t shared = h / (s.heads / s.kv_heads) * W;
      const auto at = [&](int64_t t, int64_t part, int64_t i) {
        return (b * T + t) * row + (part == 0 ? h * W : C + (part - 1) * s.kv_heads * W + shared) + i;
      };
      for (int64_t q = 0; q < T; ++q) {
        Doubles p(index(T)), mask(index(T), 1), dp(index(T)), slope(index(T), 1);
        double sum = 0, mean = 0;
        const int64_t first = positions.empty() ? 0 : q - positions[index(b * T + q)];
        const auto hidden = [&](int64_t k) { return k < first || !sees(s.pattern, T, s.first_head + h, q, k); };
        for (int64_t k = 0; k < T; ++k) {
          if (hidden(k)) continue;
          double score = 0;
          for (int64_t i = 0; i < W; ++i) score += qkv[at(q, 0, i)] * qkv[at(k, 1, i)];
          score *= scale;
          if (cap > 0) {
            const double t = std::tanh(score / cap);
            score = cap * t, slope[index(k)] = 1 - t * t;
          }
          sum += p[index(k)] = std::exp(score);
          if (s.dropout > 0) {
            const uint64_t element = (((first_sample + static_cast<uint64_t>(b)) * static_cast<uint64_t>(s.heads) +
                                       static_cast<uint64_t>(h)) *
                                          static_cast<uint64_t>(T) +
                                      static_cast<uint64_t>(q)) *
                                         static_cast<uint64_t>(T) +
                                     static_cast<uint64_t>(k);
            const float drawn = zrt::core::uniform(zrt::core::random_word(dropout.key, element));
            mask[index(k)] = drawn >= s.dropout ? 1 / (1 - static_cast<double>(s.dropout)) : 0;
          }
        }
        r.lse[index((b * s.heads + h) * T + q)] = std::log(sum);
        for (int64_t k = 0; k < T; ++k) {
          if (hidden(k)) continue;
          p[index(k)] /= sum;
          for (int64_t i = 0; i < W; ++i) {
            const int64_t o = (b * T + q) * C + h * W + i;
            r.out[index(o)] += p[index(k)] * mask[index(k)] * qkv[at(k, 2, i)];
            r.d_qkv[index(at(k, 2, i))] += p[index(k)] * mask[index(k)] * d_out[o];
            r.out_error[index(o)] += u * p[index(k)] * mask[index(k)] * std::abs(qkv[at(k, 2, i)]);
            r.d_qkv_error[index(at(k, 2, i))] += u * p[index(k)] * mask[index(k)] * std::abs(d_out[o]);
            dp[index(k)] += mask[index(k)] * d_out[o] * qkv[at(k, 2, i)];
          }
          mean += p[index(k)] * dp[index(k)];
        }
        double mean_error = 0;
        for (int64_t i = 0; i < W; ++i) {
          const int64_t o = (b * T + q) * C + h * W + i;
          r.out_error[index(o)] += u * std::abs(r.out[index(o)]);
          mean_error += r.out_error[index(o)] * std::abs(d_out[o]);
        }
        for (int64_t k = 0; k < T; ++k) {
          if (hidden(k)) continue;
          const double factor = scale * slope[index(k)], ds = p[index(k)] * (dp[index(k)] - mean) * factor;
          const double ds_error = (1 + u) * p[index(k)] * mean_error * factor + u * std::abs(ds);
          for (int64_t i = 0; i < W; ++i) {
            const size_t d_q = index(at(q, 0, i)), d_k = index(at(k, 1, i));
            r.d_qkv[d_q] += ds * qkv[at(k, 1, i)];
            r.d_qkv[d_k] += ds * qkv[at(q, 0, i)];
            r.d_qkv_error[d_q] += ds_error * std::abs(qkv[at(k, 1, i)]);
            r.d_qkv_error[d_k] += ds_error * std::abs(qkv[at(q, 0, i)]);
          }
        }
      }
    }
  }
  for (size_t i = 0; i < inputs; ++i) r.d_qkv_error[i] += u * (std::abs(r.d_qkv[i]) + r.d_qkv_error[i]);
  return r;
}

inline double norm(const Doubles& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// Over many elements roundings average to well below their bounds, over a handful they may not. In fp32 sums and
// exponentials cost more than roundings to the type.
inline double limit_of_many(DType type) {
  return type == DType::f32 ? 1e-6 : 6e-3;
}

struct Result {
  KernelBuffer out, lse, d_qkv;
};

inline Result run(const AttentionShape& s, const KernelBuffer& qkv, const KernelBuffer& d_out, const Dropout& dropout,
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

// Words for kernels, of the type fp32 by their size alone.
inline KernelBuffer words(const std::vector<int32_t>& values) {
  KernelBuffer buffer(DType::f32, static_cast<int64_t>(values.size()));
  std::memcpy(buffer.host_bytes().data(), values.data(), values.size() * sizeof(int32_t));
  return buffer;
}

// positions: of samples that hold documents, (B, T).
inline void check(AttentionShape s, const std::vector<int32_t>& positions = {}) {
  const KernelBuffer place = words(positions);
  if (!positions.empty()) s.documents = true, s.positions = static_cast<const int32_t*>(place.data());
  INFO("B " << s.B << " T " << s.T << " heads " << s.heads << "/" << s.kv_heads << " width " << s.width << " dropout "
            << s.dropout << ", pattern " << static_cast<int>(s.pattern.kind) << " causal " << s.pattern.causal
            << " block " << s.pattern.block << " local " << s.pattern.local << " global " << s.pattern.global << " of "
            << s.pattern.choices << " horizontal " << s.pattern.horizontal << " window " << s.pattern.window
            << " scale width " << s.scale_width << " cap " << s.cap);
  const KernelBuffer qkv = KernelBuffer::random(s.type, s.B * s.T * s.row(), 2);
  const KernelBuffer d_out = KernelBuffer::random(s.type, s.B * s.T * s.C());
  const Dropout dropout{{11, 12, 13}, s.dropout};
  const Reference expected = reference(s, qkv, d_out, dropout, 5, positions);
  const Result got = run(s, qkv, d_out, dropout, 5);
  const auto limit = [&](const Doubles& bounds, const Doubles& values) {
    // A query that sees itself alone has scores without a gradient: rounding is all that there is of its own.
    const bool few = s.B * s.T * s.row() <= 64,
               alone = s.pattern.window == 1 || std::count(positions.begin(), positions.end(), 0) == s.B * s.T;
    return (few || alone) && s.type != DType::f32 ? norm(bounds) / (norm(values) > 0 ? norm(values) : 1) + 1e-6
                                                  : limit_of_many(s.type);
  };
  CHECK(error_of(got.out, expected.out) < limit(expected.out_error, expected.out));
  double worst = 0;
  for (int64_t i = 0; i < got.lse.size(); ++i) {
    worst = std::max(worst, std::abs(got.lse.at(i) - expected.lse[index(i)]) / (1 + std::abs(expected.lse[index(i)])));
  }
  CHECK(worst < 3e-6);
  CHECK(error_of(got.d_qkv, expected.d_qkv) < limit(expected.d_qkv_error, expected.d_qkv));
  const Result again = run(s, qkv, d_out, dropout, 5);
  CHECK(again.out == got.out);
  CHECK(again.d_qkv == got.d_qkv);
  if (test_device() == zrt::core::DeviceKind::cuda) return;
  // Heads are independent and their products single-threaded: threads of a processor change nothing.
  const int threads = zrt::core::threads();
  zrt::core::set_threads(2);
  const Result two = run(s, qkv, d_out, dropout, 5);
  zrt::core::set_threads(threads);
  CHECK(two.out == got.out);
  CHECK(two.lse == got.lse);
  CHECK(two.d_qkv == got.d_qkv);
}

}  // namespace zrt::attention_check
