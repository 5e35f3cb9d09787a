// Soft caps of numbers and of logits, scaling, and GeGLU, against fp64.
#include "models/kernels/scaling.h"

#include "catch.h"
#include "core/parallel.h"
#include "models/kernels/kernels.h"
#include "tests/models/kernel_data.h"

namespace zrt::scaling_test {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;

namespace {

size_t index(int64_t i) {
  return static_cast<size_t>(i);
}

}  // namespace

TEST_CASE("a soft cap matches fp64 at small numbers and at large ones") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const double scale = GENERATE(1e-4, 0.1, 3.0, 100.0, 4e4);
  const float cap = GENERATE(0.5f, 30.0f);
  const int64_t n = 20001;
  zrt::core::set_threads(GENERATE(1, 2));
  KernelBuffer x = KernelBuffer::random(type, n, scale);
  const KernelBuffer before = x;
  soft_cap(type, x.data(), cap, n);
  double worst = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double exact = static_cast<double>(cap) * std::tanh(before.at(i) / static_cast<double>(cap));
    if (exact != 0) worst = std::max(worst, std::abs(x.at(i) / exact - 1));
    CHECK_FALSE(std::abs(x.at(i)) > static_cast<double>(cap) * 1.000001);
  }
  // fp16 has fewer digits below 6e-5.
  if (type != DType::f16 || scale > 0.05) CHECK(worst < (type == DType::f32 ? 1e-6 : type == DType::bf16 ? 4e-3 : 0.2));
  KernelBuffer nan(DType::f32, 8);
  for (int64_t i = 0; i < 8; ++i) nan.set(i, std::nanf(""));
  soft_cap(DType::f32, nan.data(), cap, 8);
  for (int64_t i = 0; i < 8; ++i) CHECK(std::isnan(nan.at(i)));
  zrt::core::set_threads(1);
}

TEST_CASE("scaled numbers are products rounded once, in place or not") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const int64_t n = 20001;
  const KernelBuffer x = KernelBuffer::random(type, n);
  KernelBuffer y(type, n), in_place = x, expected(type, n);
  for (int64_t i = 0; i < n; ++i) expected.set(i, static_cast<float>(x.at(i)) * 33.75f);
  scale_elements(type, x.data(), 33.75f, y.data(), n);
  scale_elements(type, in_place.data(), 33.75f, in_place.data(), n);
  CHECK(error_of(y, doubles(expected)) < (type == DType::f32 ? 1e-7 : tolerance(type)));
  CHECK(in_place == y);
}

TEST_CASE("GeGLU and its gradients match fp64, also far from zero") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const double scale = GENERATE(0.1, 4.0, 50.0);
  const int64_t n = 40001;
  const KernelBuffer gate = KernelBuffer::random(type, n, scale), up = KernelBuffer::random(type, n, 3),
                     dy = KernelBuffer::random(type, n);
  KernelBuffer y(type, n), d = dy, d_up(type, n), in_place = gate;
  Doubles expected, expected_gate, expected_up;
  for (int64_t i = 0; i < n; ++i) {
    const double g = gate.at(i), root = std::sqrt(2 / 3.14159265358979323846);
    const double t = std::tanh(root * (g + 0.044715 * g * g * g));
    const double slope = 0.5 * (1 + t) + 0.5 * g * (1 - t * t) * root * (1 + 3 * 0.044715 * g * g);
    expected.push_back(0.5 * g * (1 + t) * up.at(i));
    expected_gate.push_back(dy.at(i) * up.at(i) * slope);
    expected_up.push_back(dy.at(i) * 0.5 * g * (1 + t));
  }
  geglu(type, gate.data(), up.data(), y.data(), n);
  geglu(type, in_place.data(), up.data(), in_place.data(), n);
  geglu_backward(type, gate.data(), up.data(), d.data(), d_up.data(), n);
  CHECK(error_of(y, expected) < tolerance(type));
  CHECK(in_place == y);
  CHECK(error_of(d, expected_gate) < tolerance(type));
  CHECK(error_of(d_up, expected_up) < tolerance(type));
}

TEST_CASE("the gradient of capped logits is that of what went into the cap, over a whole vocabulary and a cut one") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  const int64_t V = GENERATE(5, 257, 5003), rows = 3;
  const float cap = 4, scale = 0.5f;
  const KernelBuffer raw = KernelBuffer::random(type, rows * V, 6);
  KernelBuffer logits = raw;
  Visible<int32_t> targets;
  for (int64_t r = 0; r < rows; ++r) targets.push_back(static_cast<int32_t>((r * 31 + 2) % V));
  soft_cap(type, logits.data(), cap, rows * V);
  const KernelBuffer capped = logits;
  Doubles expected;
  for (int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (int64_t v = 0; v < V; ++v) total += std::exp(capped.at(r * V + v));
    for (int64_t v = 0; v < V; ++v) {
      const double x = capped.at(r * V + v), p = std::exp(x) / total, slope = 1 - std::pow(x / 4, 2);
      expected.push_back(static_cast<double>(scale) * slope * (p - (v == targets[index(r)])));
    }
  }
  Visible<double> losses(index(rows), -1), of_parts = losses;
  cross_entropy(type, logits.data(), targets.data(), rows, V, V, cap, scale, losses.data());
  settle();
  CHECK(error_of(logits, expected) < tolerance(type));
  KernelBuffer part = capped;
  Visible<LogitPart> parts(index(rows), LogitPart{7, 7, 7});
  logit_parts(type, part.data(), targets.data(), 0, rows, V, V, parts.data());
  cross_entropy_part(type, part.data(), targets.data(), 0, rows, V, V, V, parts.data(), 1, cap, scale, of_parts.data());
  settle();
  CHECK(part == logits);
  CHECK(of_parts == losses);
}

}  // namespace zrt::scaling_test
