// Kernels that BERT alone has, against fp64: token types, rows of a small table, tanh, and the loss of the order of
// runs.
#include <cmath>

#include "catch.h"
#include "models/kernels/kernels.h"
#include "models/kernels/sentence_order.h"
#include "models/masking.h"
#include "tests/models/kernel_data.h"

namespace zrt::bert_kernels_test {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;

TEST_CASE("rows behind the first separator of their sample have the second type, and get its row") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const auto [B, T, C] = GENERATE(std::tuple(1, 1, 3), std::tuple(3, 13, 33), std::tuple(2, 700, 8));
  constexpr int32_t separator = 5;
  Visible<int32_t> tokens, types;
  for (int64_t i = 0; i < B * T; ++i) {
    const int64_t b = i / T, t = i % T;
    // The last sample has none, the others several.
    tokens.push_back(b + 1 < B && t >= T / (b + 2) && (t - T / (b + 2)) % 3 == 0 ? separator : 7);
    types.push_back(-9);
  }
  token_types(tokens.data(), B, T, separator, types.data());
  const KernelBuffer table = KernelBuffer::random(type, 2 * C), before = KernelBuffer::random(type, B * T * C);
  KernelBuffer rows = before;
  add_rows(type, table.data(), types.data(), B * T, C, rows.data());
  settle();
  Doubles expected;
  for (int64_t i = 0; i < B * T; ++i) {
    const bool behind = i / T + 1 < B && i % T > T / (i / T + 2);
    REQUIRE(types[static_cast<size_t>(i)] == (behind ? 1 : 0));
    for (int64_t c = 0; c < C; ++c) expected.push_back(before.at(i * C + c) + table.at((behind ? C : 0) + c));
  }
  CHECK(error_of(rows, expected) < tolerance(type));
}

TEST_CASE("tanh and its gradient match fp64, also far from zero") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const double scale = GENERATE(0.1, 4.0, 100.0);
  const int64_t n = 1003;
  const KernelBuffer x = KernelBuffer::random(type, n, scale), dy = KernelBuffer::random(type, n);
  KernelBuffer y = x, d = dy;
  tanh_of(type, y.data(), n);
  tanh_backward(type, y.data(), d.data(), n);
  Doubles expected, gradient;
  for (int64_t i = 0; i < n; ++i) {
    expected.push_back(std::tanh(x.at(i)));
    gradient.push_back(dy.at(i) * (1 - y.at(i) * y.at(i)));
  }
  CHECK(error_of(y, expected) < tolerance(type));
  CHECK(error_of(d, gradient) < tolerance(type));
}

TEST_CASE("the loss of the order of two runs and its gradient match fp64, and samples without a label have none") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const OrderShape shape{301, 4, GENERATE(2, 64)};
  const double scale = GENERATE(1.0, 50.0);
  const KernelBuffer logits = KernelBuffer::random(type, shape.B * shape.stride, scale);
  KernelBuffer d(type, 2 * shape.B);
  Visible<int32_t> targets;
  Visible<double> losses;
  for (int64_t b = 0; b < shape.B; ++b) {
    targets.push_back(b % 3 == 0 ? in_order : b % 3 == 1 ? swapped : b % 2 == 0 ? not_counted : 4);
    for (int64_t t = 1; t < shape.T; ++t) targets.push_back(in_order);  // which nobody reads
    losses.push_back(-9);
  }
  const double weight = 7;
  const float gradient_scale = 0.25f;
  order_loss(type, logits.data(), shape, targets.data(), weight, gradient_scale, losses.data(), d.data());
  settle();
  Doubles expected;
  for (int64_t b = 0; b < shape.B; ++b) {
    const bool counted = b % 3 != 2;
    const int label = b % 3 == 1;
    const double one = logits.at(b * shape.stride + label), other = logits.at(b * shape.stride + 1 - label);
    const double wrong = 1 / (1 + std::exp(one - other));
    const double loss =
        counted ? weight * (std::log1p(std::exp(-std::abs(one - other))) + std::max(other - one, 0.0)) : 0;
    CHECK(losses[static_cast<size_t>(b)] == Approx(loss).epsilon(1e-5).margin(1e-6));
    for (int v = 0; v < 2; ++v) {
      expected.push_back(counted ? static_cast<double>(gradient_scale) * (v == label ? -wrong : wrong) : 0);
    }
  }
  CHECK(error_of(d, expected) < tolerance(type));
}

}  // namespace zrt::bert_kernels_test
