// Losses of rows of logits, and the gradients that take the logits' place.
#include "catch.h"
#include "models/kernels/kernels.h"
#include "tests/models/kernel_data.h"

namespace zrt::cross_entropy_test {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;

namespace {

size_t index(int64_t i) {
  return static_cast<size_t>(i);
}

}  // namespace

TEST_CASE("cross entropy over vocabularies of every size matches fp64 and repeats its bits") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  const int64_t V = GENERATE(1, 8, 4096, 50257, 130001), rows = 2;
  const KernelBuffer logits = KernelBuffer::random(type, rows * V, 5);
  const Visible<int32_t> targets{0, static_cast<int32_t>(V - 1)};
  std::vector<KernelBuffer> gradients;
  std::vector<std::vector<double>> losses;
  for (const float scale : {1.0f, 1.0f, 0.0f}) {
    KernelBuffer gradient = logits;
    Visible<double> got(2, -1), sum(1, -1);
    cross_entropy(type, gradient.data(), targets.data(), rows, V, V, 0, scale, got.data());
    sum_losses(got.data(), 2, sum.data());
    settle();
    CHECK(sum[0] == got[0] + got[1]);
    losses.emplace_back(got.begin(), got.end()), gradients.push_back(gradient);
  }
  CHECK(losses[0] == losses[1]);
  CHECK(losses[0] == losses[2]);
  CHECK(gradients[0] == gradients[1]);
  CHECK(gradients[2] == logits);
  const Doubles x = doubles(logits);
  Doubles expected;
  for (int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (int64_t v = 0; v < V; ++v) total += std::exp(x[index(r * V + v)]);
    const int64_t target = targets[index(r)];
    const double loss = std::log(total) - x[index(r * V + target)];
    CHECK(std::abs(losses[0][index(r)] - loss) < 1e-6 * (1 + loss));
    for (int64_t v = 0; v < V; ++v) expected.push_back(std::exp(x[index(r * V + v)]) / total - (v == target));
  }
  CHECK(error_of(gradients[0], expected) < tolerance(type));
}

TEST_CASE("many losses are summed the same way every time") {
  Visible<double> losses(70001), sums(2, -1);
  double expected = 0;
  for (size_t i = 0; i < losses.size(); ++i) expected += losses[i] = 1.0 / static_cast<double>(i + 1);
  for (double& sum : sums) sum_losses(losses.data(), 70001, &sum);
  settle();
  CHECK(sums[0] == sums[1]);
  CHECK(std::abs(sums[0] - expected) < 1e-12 * expected);
}

TEST_CASE("cross entropy and its gradient match fp64") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const auto [rows, V] = GENERATE(std::pair(3, 5), std::pair(9, 257), std::pair(2, 5003));
  const double scale = GENERATE(0.5, 30.0);
  const int64_t stride = V + GENERATE(0, 3);
  KernelBuffer logits = KernelBuffer::random(type, rows * stride, scale);
  const float gradient = 0.125f;
  Visible<int32_t> targets;
  Doubles expected = doubles(logits), losses;
  double terms = 0;  // squares of what a gradient is the difference of
  for (int64_t r = 0; r < rows; ++r) {
    targets.push_back(static_cast<int32_t>((r * 31 + 2) % V));
    double sum = 0;
    for (int64_t v = 0; v < V; ++v) sum += std::exp(logits.at(r * stride + v));
    losses.push_back(std::log(sum) - logits.at(r * stride + targets.back()));
    for (int64_t v = 0; v < V; ++v) {
      const double p = std::exp(logits.at(r * stride + v)) / sum, target = v == targets.back();
      expected[index(r * stride + v)] = (p - target) * static_cast<double>(gradient);
      terms += (p * p + target) * std::pow(static_cast<double>(gradient), 2);
    }
  }
  Visible<double> only(index(rows)), got(index(rows));
  const KernelBuffer before = logits;
  cross_entropy(type, logits.data(), targets.data(), rows, V, stride, 0, 0, only.data());
  CHECK(logits == before);
  cross_entropy(type, logits.data(), targets.data(), rows, V, stride, 0, gradient, got.data());
  settle();
  CHECK(only == got);
  for (size_t r = 0; r < losses.size(); ++r) CHECK(std::abs(got[r] - losses[r]) < 1e-6 * (1 + losses[r]));
  // The elements between the rows stay, and hide no error.
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t v = V; v < stride; ++v) CHECK(logits.at(r * stride + v) == expected[index(r * stride + v)]);
    for (int64_t v = V; v < stride; ++v) logits.set(r * stride + v, 0), expected[index(r * stride + v)] = 0;
  }
  CHECK(error_of(logits, expected, std::sqrt(terms)) < tolerance(type));
}

// There are so many rows that on a GPU a block has several, at addresses that are 16-byte boundaries and that are not.
TEST_CASE("a row's loss and gradient do not depend on the rows beside it") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  // The longer rows take a block's threads several rounds.
  const auto [V, rows] = GENERATE(table<int64_t, int64_t>({{97, 3 * 264 + 5}, {16'500, 264 + 3}}));
  const int64_t stride = V + GENERATE(0, 7);
  KernelBuffer logits = KernelBuffer::random(type, rows * stride, 5), alone = logits;
  Visible<int32_t> targets(index(rows));
  for (int64_t r = 0; r < rows; ++r)
    targets[index(r)] = static_cast<int32_t>(r % 11 == 3 || r > rows - 17 ? -1 : 61 * r % V);
  Visible<double> losses(index(rows), 7), of_one(index(rows), 7);
  cross_entropy(type, logits.data(), targets.data(), rows, V, stride, 0, 0.5f, losses.data());
  auto* at = static_cast<std::byte*>(alone.data());
  for (int64_t r = 0; r < rows; ++r) {
    cross_entropy(type, at, targets.data() + r, 1, V, stride, 0, 0.5f, of_one.data() + r);
    at += index(stride) * zrt::core::dtype_size(type);
  }
  settle();
  CHECK(losses == of_one);
  CHECK(logits == alone);
}

TEST_CASE("rows without a target have neither loss nor gradient") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  KernelBuffer logits = KernelBuffer::random(type, 3 * 70);
  const KernelBuffer before = logits;
  const Visible<int32_t> targets{4, -1, 5};
  Visible<double> losses(3, 7);
  cross_entropy(type, logits.data(), targets.data(), 3, 70, 70, 0, 0, losses.data());
  settle();
  CHECK(losses[1] == 0);
  CHECK(losses[0] > 0);
  CHECK(logits == before);
  cross_entropy(type, logits.data(), targets.data(), 3, 70, 70, 0, 1, losses.data());
  settle();
  CHECK(losses[1] == 0);
  for (int64_t i = 70; i < 140; ++i) CHECK(logits.at(i) == 0);
  CHECK(logits.at(140) != 0);
}

}  // namespace zrt::cross_entropy_test
