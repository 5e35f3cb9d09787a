// Cross entropy over a vocabulary that is cut among ranks.
#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <tuple>

#include "catch.h"
#include "core/parallel.h"
#include "isa_levels.h"
#include "models/kernels/cpu/vector_kernels.h"
#include "models/kernels/kernels.h"
#include "tests/models/shifted_buffer.h"

namespace zrt::vocabulary_test {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;

namespace {

size_t index(int64_t i) {
  return static_cast<size_t>(i);
}

constexpr int64_t gap = 3;  // elements between rows that are nobody's

// A vocabulary of V tokens, of which every rank stores `columns` and the last ones have fewer or none.
struct Cut {
  int64_t rows, V, ranks, columns;
  int64_t stride() const { return columns + gap; }
  int64_t first(int64_t rank) const { return rank * columns; }
  int64_t own(int64_t rank) const { return std::clamp<int64_t>(V - first(rank), 0, columns); }
};

// Every rank's columns of logits (rows, V); behind them, and between rows, a large number that must not count.
std::vector<KernelBuffer> cut_among_ranks(DType type, const KernelBuffer& logits, const Cut& cut) {
  std::vector<KernelBuffer> parts;
  for (int64_t rank = 0; rank < cut.ranks; ++rank) {
    KernelBuffer& part = parts.emplace_back(type, cut.rows * cut.stride());
    for (int64_t row = 0; row < cut.rows; ++row) {
      for (int64_t i = 0; i < cut.stride(); ++i) {
        const bool real = i < cut.own(rank);
        part.set(row * cut.stride() + i,
                 real ? static_cast<float>(logits.at(row * cut.V + cut.first(rank) + i)) : 1000.0f);
      }
    }
  }
  return parts;
}

struct Result {
  std::vector<KernelBuffer> gradients;      // of every rank, as cut_among_ranks()
  std::vector<std::vector<double>> losses;  // of every rank
};

Result run(DType type, const KernelBuffer& logits, const Visible<int32_t>& targets, const Cut& cut, float scale) {
  Result result{cut_among_ranks(type, logits, cut), {}};
  Visible<LogitPart> parts(index(cut.ranks * cut.rows), LogitPart{7, 7, 7});
  for (int64_t rank = 0; rank < cut.ranks; ++rank) {
    logit_parts(type, result.gradients[index(rank)].data(), targets.data(), cut.first(rank), cut.rows, cut.own(rank),
                cut.stride(), parts.data() + rank * cut.rows);
  }
  for (int64_t rank = 0; rank < cut.ranks; ++rank) {
    Visible<double> losses(index(cut.rows), -1);
    cross_entropy_part(type, result.gradients[index(rank)].data(), targets.data(), cut.first(rank), cut.rows,
                       cut.own(rank), cut.columns, cut.stride(), parts.data(), cut.ranks, 0, scale, losses.data());
    settle();
    result.losses.emplace_back(losses.begin(), losses.end());
  }
  return result;
}

struct Expected {
  Doubles losses, gradient;
  double terms = 0;  // L2 norm of what the gradient is the difference of
};

Expected reference(const KernelBuffer& logits, const Visible<int32_t>& targets, int64_t V, double scale) {
  Expected expected;
  const Doubles x = doubles(logits);
  for (size_t r = 0; r < targets.size(); ++r) {
    const auto row = x.begin() + static_cast<int64_t>(r) * V;
    const double max = *std::max_element(row, row + V);
    double sum = 0;
    for (int64_t v = 0; v < V; ++v) sum += std::exp(row[v] - max);
    const bool counts = targets[r] >= 0;
    expected.losses.push_back(counts ? std::log(sum) + max - row[targets[r]] : 0);
    for (int64_t v = 0; v < V; ++v) {
      const double p = std::exp(row[v] - max) / sum, target = v == targets[r];
      expected.gradient.push_back(counts ? (p - target) * scale : 0);
      if (counts) expected.terms += (p * p + target) * scale * scale;
    }
  }
  expected.terms = std::sqrt(expected.terms);
  return expected;
}

// The ranks' gradients side by side; what is padding must be zero, and what lies between rows as it was.
KernelBuffer put_together(DType type, const Result& result, const Cut& cut) {
  KernelBuffer whole(type, cut.rows * cut.V);
  int64_t wrong = 0;
  for (int64_t rank = 0; rank < cut.ranks; ++rank) {
    const Doubles part = doubles(result.gradients[index(rank)]);
    for (int64_t row = 0; row < cut.rows; ++row) {
      const double* from = part.data() + row * cut.stride();
      for (int64_t i = 0; i < cut.own(rank); ++i) {
        whole.set(row * cut.V + cut.first(rank) + i, static_cast<float>(from[i]));
      }
      for (int64_t i = cut.own(rank); i < cut.columns; ++i) wrong += from[i] != 0;
      for (int64_t i = cut.columns; i < cut.stride(); ++i) wrong += from[i] != 1000;
    }
  }
  CHECK(wrong == 0);
  return whole;
}

}  // namespace

// Tolerances are those of cross entropy over the whole vocabulary: 1e-6 of a loss, and of the gradient 5e-7 in fp32 and
// what rounding it to the type costs in bf16 (4e-3) and fp16 (5e-4).
TEST_CASE("cross entropy over ranks' parts of a vocabulary matches fp64 and gives every rank the same loss") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const auto [V, ranks, columns] = GENERATE(
      std::tuple(97, 1, 97), std::tuple(97, 2, 49), std::tuple(97, 3, 40), std::tuple(97, 4, 32), std::tuple(97, 4, 50),
      std::tuple(97, 2, 100), std::tuple(5, 3, 2), std::tuple(50257, 2, 25152), std::tuple(50257, 4, 12608));
  const double spread = GENERATE(0.5, 30.0);
  zrt::core::set_threads(GENERATE(1, 2));
  const Cut cut{3, V, ranks, columns};
  INFO("V " << V << " ranks " << ranks << " columns " << columns << " spread " << spread);
  const KernelBuffer logits = KernelBuffer::random(type, cut.rows * V, spread);
  const Visible<int32_t> targets{0, static_cast<int32_t>(V / 2), static_cast<int32_t>(V - 1)};
  const float scale = 0.125f;
  const Expected expected = reference(logits, targets, V, static_cast<double>(scale));
  const Result got = run(type, logits, targets, cut, scale);
  for (int64_t rank = 1; rank < ranks; ++rank) CHECK(got.losses[index(rank)] == got.losses[0]);
  for (size_t r = 0; r < targets.size(); ++r) {
    CHECK(std::abs(got.losses[0][r] - expected.losses[r]) < 1e-6 * (1 + expected.losses[r]));
  }
  CHECK(error_of(put_together(type, got, cut), expected.gradient, expected.terms) < tolerance(type));
  // Without a gradient the losses are the same and the logits stay.
  const Result only = run(type, logits, targets, cut, 0);
  CHECK(only.losses == got.losses);
  CHECK(only.gradients == cut_among_ranks(type, logits, cut));
  zrt::core::set_threads(1);
}

TEST_CASE("one rank's part of a vocabulary gives the bits of the whole") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const int64_t V = GENERATE(1, 97, 5003);
  const Cut cut{4, V, 1, V + 5};
  const KernelBuffer logits = KernelBuffer::random(type, cut.rows * V, 9);
  const Visible<int32_t> targets{0, -1, static_cast<int32_t>(V / 2), static_cast<int32_t>(V - 1)};
  KernelBuffer whole = cut_among_ranks(type, logits, cut)[0];
  Visible<double> losses(index(cut.rows), -1);
  cross_entropy(type, whole.data(), targets.data(), cut.rows, V, cut.stride(), 0, 0.5f, losses.data());
  settle();
  for (int64_t row = 0; row < cut.rows; ++row) {
    for (int64_t i = V; i < cut.columns; ++i) whole.set(row * cut.stride() + i, 0);
  }
  const Result got = run(type, logits, targets, cut, 0.5f);
  CHECK(got.gradients[0] == whole);
  CHECK(got.losses[0] == std::vector<double>(losses.begin(), losses.end()));
}

TEST_CASE("rows without a target have no loss on any rank, and no gradient, whatever their parts say") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const Cut cut{3, 97, 4, 40};
  KernelBuffer logits = KernelBuffer::random(type, cut.rows * cut.V, 3);
  for (int64_t v = 0; v < cut.V; ++v) logits.set(cut.V + v, NAN);
  const Visible<int32_t> targets{96, -1, 0};
  const Result got = run(type, logits, targets, cut, 1), only = run(type, logits, targets, cut, 0);
  const KernelBuffer gradient = put_together(type, got, cut);
  for (int64_t rank = 0; rank < cut.ranks; ++rank) {
    CHECK(got.losses[index(rank)] == got.losses[0]);
    CHECK(only.losses[index(rank)] == got.losses[0]);
  }
  CHECK(got.losses[0][0] > 0);
  CHECK(got.losses[0][1] == 0);
  for (int64_t v = 0; v < cut.V; ++v) CHECK(gradient.at(cut.V + v) == 0);
  CHECK(gradient.at(0) != 0);
  CHECK(gradient.at(2 * cut.V) != 0);
}

TEST_CASE("a rank of padding alone and a row that diverged are seen in the parts") {
  const Visible<int32_t> targets{3, -1, 4};
  const KernelBuffer logits = KernelBuffer::random(DType::f32, 3 * 8);
  Visible<LogitPart> parts(3, LogitPart{7, 7, 7});
  logit_parts(DType::f32, logits.data(), targets.data(), 8, 3, 0, 8, parts.data());
  settle();
  for (const LogitPart& part : parts) {
    CHECK(part.max == -FLT_MAX);
    CHECK(part.target == 0);
    CHECK(part.sum == 0);
  }
  KernelBuffer diverged = KernelBuffer::random(DType::f32, 97);
  diverged.set(90, NAN);
  const Result got = run(DType::f32, diverged, {3}, {1, 97, 2, 49}, 1);
  for (int64_t rank = 0; rank < 2; ++rank) CHECK(std::isnan(got.losses[index(rank)][0]));
}

TEST_CASE("a processor's kernels of parts give the same bits with every instruction set", "[cpu]") {
  ZRT_ONLY_ON_CPU();
  const int64_t n = 3001;
  const auto& base = cpu::vector_kernels(zrt::core::Isa::avx2);
  const KernelBuffer logits = KernelBuffer::random(DType::f32, n, 9);
  for (const zrt::core::Isa isa : zrt::test::compiled_isas()) {
    const auto& wide = cpu::vector_kernels(isa);
    std::vector<std::array<LogitPart, 2>> parts;
    std::vector<KernelBuffer> gradients;
    std::vector<double> losses;
    for (const auto* kernels : {&base, &wide}) {
      KernelBuffer& x = gradients.emplace_back(logits);
      parts.push_back(
          {kernels->f32.logit_part(x.floats(), n / 2, 5), kernels->f32.logit_part(x.floats() + n / 2, n - n / 2, -1)});
      losses.push_back(kernels->f32.cross_entropy_part(x.floats(), n / 2, 5, parts.back().data(), 2, 1, 0, 0.5f));
    }
    for (const size_t i : {0, 1}) {
      CHECK(parts[0][i].max == parts[1][i].max);
      CHECK(parts[0][i].target == parts[1][i].target);
      CHECK(parts[0][i].sum == parts[1][i].sum);
    }
    CHECK(gradients[0] == gradients[1]);
    CHECK(losses[0] == losses[1]);
  }
}

}  // namespace zrt::vocabulary_test
