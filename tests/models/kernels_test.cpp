#include "models/kernels/kernels.h"

#include "catch.h"
#include "core/parallel.h"
#include "isa_levels.h"
#include "models/kernels/cpu/vector_kernels.h"
#include "models/kernels/rounding.h"
#include "tests/models/shifted_buffer.h"

namespace zrt::kernels_test {

using zrt::core::DType;
using namespace zrt::models;
using namespace zrt::test;

namespace {

double mask_of(const Dropout& dropout, uint64_t index) {
  if (dropout.probability == 0) return 1;
  const float uniform = zrt::core::uniform(zrt::core::random_word(dropout.key, index));
  return uniform >= dropout.probability ? 1 / (1 - static_cast<double>(dropout.probability)) : 0;
}

double gelu_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

size_t index(int64_t i) {
  return static_cast<size_t>(i);
}

// Random contents, so that whatever a kernel reads before writing changes from call to call.
KernelBuffer workspace_of(uint64_t bytes) {
  return KernelBuffer::random(DType::f32, static_cast<int64_t>((bytes + 3) / 4));
}

}  // namespace

TEST_CASE("layer norm, RMS norm and their gradients match fp64 over odd sizes") {
  const NormKind kind = GENERATE(NormKind::layer, NormKind::rms);
  const bool layer = kind == NormKind::layer;
  const float epsilon = GENERATE(1e-5f, 0.5f);
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const DType grad_type = GENERATE(true, false) ? DType::f32 : type;
  const auto [rows, C] = GENERATE(std::pair(1, 7), std::pair(13, 33), std::pair(130, 64), std::pair(67, 777));
  const bool accumulate = GENERATE(false, true);
  const KernelBuffer x = KernelBuffer::random(type, rows * C, 3), gamma = KernelBuffer::random(type, C),
                     beta = KernelBuffer::random(type, C), dy = KernelBuffer::random(type, rows * C),
                     add = KernelBuffer::random(type, rows * C);
  Doubles y(x.size()), dx(x.size()), dgamma(index(C)), dbeta(index(C));
  KernelBuffer got_y(type, rows * C), mean(DType::f32, rows), rstd(DType::f32, rows), got_dx = dy;
  KernelBuffer got_dgamma = KernelBuffer::random(grad_type, C), got_dbeta = KernelBuffer::random(grad_type, C);
  if (accumulate) dgamma = doubles(got_dgamma), dbeta = doubles(got_dbeta);
  double gamma_terms = 0, beta_terms = 0;  // squares
  for (const double before : dgamma) gamma_terms += before * before;
  for (const double before : dbeta) beta_terms += before * before;
  for (int64_t r = 0; r < rows; ++r) {
    double m = 0, v = 0, sum = 0, dot = 0;
    for (int64_t c = 0; c < C && layer; ++c) m += x.at(r * C + c) / C;
    for (int64_t c = 0; c < C; ++c) v += std::pow(x.at(r * C + c) - m, 2) / C;
    const double s = 1 / std::sqrt(v + static_cast<double>(epsilon));
    for (int64_t c = 0; c < C; ++c) {
      const int64_t i = r * C + c;
      const double xhat = (x.at(i) - m) * s, g = dy.at(i) * gamma.at(c);
      y[index(i)] = xhat * gamma.at(c) + (layer ? beta.at(c) : 0);
      sum += layer ? g / C : 0, dot += g * xhat / C;
      dgamma[index(c)] += dy.at(i) * xhat, dbeta[index(c)] += dy.at(i);
      gamma_terms += std::pow(dy.at(i) * xhat, 2), beta_terms += std::pow(dy.at(i), 2);
    }
    for (int64_t c = 0; c < C; ++c) {
      const int64_t i = r * C + c;
      dx[index(i)] = add.at(i) + s * (dy.at(i) * gamma.at(c) - sum - (x.at(i) - m) * s * dot);
    }
  }
  const GradTarget to_dgamma{got_dgamma.data(), grad_type, accumulate};
  const GradTarget to_dbeta{got_dbeta.data(), grad_type, accumulate};
  float* means = layer ? mean.floats() : nullptr;
  norm(kind, type, x.data(), gamma.data(), layer ? beta.data() : nullptr, got_y.data(), means, rstd.floats(), epsilon,
       {rows, C});
  KernelBuffer workspace = workspace_of(norm_backward_workspace(kind, rows, C));
  norm_backward(kind, type, x.data(), gamma.data(), got_dx.data(), means, rstd.floats(), add.data(), got_dx.data(),
                to_dgamma, layer ? to_dbeta : GradTarget{}, {rows, C}, workspace.data());
  CHECK(error_of(got_y, y) < tolerance(type));
  CHECK(error_of(got_dx, dx) < tolerance(type));
  CHECK(error_of(got_dgamma, dgamma, std::sqrt(gamma_terms)) < tolerance(grad_type));
  if (layer) CHECK(error_of(got_dbeta, dbeta, std::sqrt(beta_terms)) < tolerance(grad_type));
}

TEST_CASE("bias gradients are column sums") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const auto [rows, n] = GENERATE(std::pair(1, 3), std::pair(37, 65), std::pair(1000, 130));
  const bool accumulate = GENERATE(false, true);
  const int64_t stride = n + GENERATE(0, 11);
  const KernelBuffer x = KernelBuffer::random(type, rows * stride);
  KernelBuffer sums = KernelBuffer::random(type, n);
  Doubles expected(index(n));
  if (accumulate) expected = doubles(sums);
  for (int64_t i = 0; i < rows * n; ++i) expected[index(i % n)] += x.at(i / n * stride + i % n);
  KernelBuffer workspace = workspace_of(bias_gradient_workspace(rows, n));
  bias_gradient(type, x.data(), rows, n, stride, {sums.data(), type, accumulate}, workspace.data());
  CHECK(error_of(sums, expected) < tolerance(type));
}

TEST_CASE("GELU and its gradient match fp64, also far from zero") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const double scale = GENERATE(0.1, 4.0, 50.0, 1e4);
  const int64_t n = 40001;
  const KernelBuffer x = KernelBuffer::random(type, n, scale), dy = KernelBuffer::random(type, n);
  KernelBuffer y(type, n), again(type, n), d = dy;
  Doubles expected, slope;
  for (int64_t i = 0; i < n; ++i) {
    const double v = x.at(i), k = std::sqrt(2 / M_PI), t = std::tanh(k * (v + 0.044715 * v * v * v));
    expected.push_back(gelu_of(v));
    const double du = std::abs(v) > 100 ? 0 : 0.5 * v * (1 - t * t) * k * (1 + 3 * 0.044715 * v * v);
    slope.push_back(dy.at(i) * (0.5 * (1 + t) + du));
  }
  gelu(type, x.data(), y.data(), n);
  KernelBuffer alone = d;
  gelu_backward(type, x.data(), d.data(), again.data(), n);
  gelu_backward(type, x.data(), alone.data(), nullptr, n);
  CHECK(error_of(y, expected) < tolerance(type));
  CHECK(error_of(d, slope) < tolerance(type));
  CHECK(again == y);
  CHECK(alone == d);
}

TEST_CASE("GELU by the error function and its gradient match fp64, also far from zero") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const double scale = GENERATE(0.1, 4.0, 50.0, 1e4);
  const int64_t n = 40001;
  const KernelBuffer x = KernelBuffer::random(type, n, scale), dy = KernelBuffer::random(type, n);
  KernelBuffer y(type, n), again(type, n), d = dy;
  Doubles expected, slope;
  double worst = 0;  // of a number alone, where fp32 still holds the tail
  for (int64_t i = 0; i < n; ++i) {
    const double v = x.at(i), below = 0.5 * std::erfc(-v / std::sqrt(2));
    expected.push_back(v * below);
    slope.push_back(dy.at(i) * (below + v * std::exp(-v * v / 2) / std::sqrt(2 * M_PI)));
  }
  gelu_erf(type, x.data(), y.data(), n);
  KernelBuffer alone = d;
  gelu_erf_backward(type, x.data(), d.data(), again.data(), n);
  gelu_erf_backward(type, x.data(), alone.data(), nullptr, n);
  CHECK(alone == d);
  CHECK(error_of(y, expected) < tolerance(type));
  CHECK(error_of(d, slope) < tolerance(type));
  CHECK(again == y);
  for (int64_t i = 0; i < n && type == DType::f32; ++i) {
    if (x.at(i) > -5) worst = std::max(worst, std::abs(y.at(i) / expected[index(i)] - 1));
  }
  CHECK(worst < 2e-6);
}

TEST_CASE("SwiGLU and its gradients match fp64, also far from zero") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const double scale = GENERATE(0.1, 4.0, 50.0, 1e4);
  const int64_t n = 40001;
  const KernelBuffer gate = KernelBuffer::random(type, n, scale), up = KernelBuffer::random(type, n, 3),
                     dy = KernelBuffer::random(type, n);
  KernelBuffer y(type, n), d = dy, d_up(type, n), in_place = gate;
  Doubles expected, expected_gate, expected_up;
  for (int64_t i = 0; i < n; ++i) {
    const double g = gate.at(i), s = 1 / (1 + std::exp(-g));
    expected.push_back(g * s * up.at(i));
    expected_gate.push_back(dy.at(i) * up.at(i) * (s + g * s * (1 - s)));
    expected_up.push_back(dy.at(i) * g * s);
  }
  swiglu(type, gate.data(), up.data(), y.data(), n);
  swiglu(type, in_place.data(), up.data(), in_place.data(), n);
  swiglu_backward(type, gate.data(), up.data(), d.data(), d_up.data(), n);
  CHECK(error_of(y, expected) < tolerance(type));
  CHECK(in_place == y);
  CHECK(error_of(d, expected_gate) < tolerance(type));
  CHECK(error_of(d_up, expected_up) < tolerance(type));
}

TEST_CASE("rotary positions turn the pairs of every head by fp64's angles, and back") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const int64_t width = GENERATE(2, 10, 64, 600), position = GENERATE(0, 100000);
  zrt::core::set_threads(GENERATE(1, 2));
  const int64_t T = 7, heads = 3, stride = heads * width + 5, rows = 2 * T;
  const float scale = GENERATE(1.0f, 1.375f);
  const RotaryShape shape{rows, T, heads, width, stride, scale};
  std::vector<double> frequencies;
  for (int64_t i = 0; i < width / 2; ++i) {
    frequencies.push_back(std::pow(500.0, -2.0 * static_cast<double>(i) / static_cast<double>(width)));
  }
  const KernelBuffer x = KernelBuffer::random(type, rows * stride);
  Doubles expected = doubles(x);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < width / 2; ++i) {
        const int64_t a = r * stride + h * width + i, b = a + width / 2;
        const double angle = static_cast<double>(position + r % T) * frequencies[index(i)];
        expected[index(a)] = static_cast<double>(scale) * (x.at(a) * std::cos(angle) - x.at(b) * std::sin(angle));
        expected[index(b)] = static_cast<double>(scale) * (x.at(b) * std::cos(angle) + x.at(a) * std::sin(angle));
      }
    }
  }
  KernelBuffer turned = x;
  rotary(type, shape, frequencies.data(), position, false, turned.data());
  CHECK(error_of(turned, expected) < tolerance(type));
  for (int64_t r = 0; r < rows; ++r) {  // what lies behind the heads stays as it was
    for (int64_t i = heads * width; i < stride; ++i) CHECK(turned.at(r * stride + i) == x.at(r * stride + i));
  }
  rotary(type, shape, frequencies.data(), position, true, turned.data());
  Doubles longer = doubles(x);  // each time `scale` times as long
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < heads * width; ++i) longer[index(r * stride + i)] *= static_cast<double>(scale * scale);
  }
  CHECK(error_of(turned, longer) < 2 * tolerance(type));
  zrt::core::set_threads(1);
}

TEST_CASE("residual sums and dropout follow the Philox stream at any first index") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const float probability = GENERATE(0.0f, 0.1f, 0.75f);
  const uint64_t first = GENERATE(0ull, 3ull, (1ull << 34) + 1);
  const Dropout dropout{{42, 7, 3}, probability};
  const int64_t n = 20011;
  const KernelBuffer a = KernelBuffer::random(type, n), b = KernelBuffer::random(type, n);
  KernelBuffer sum = b, dropped(type, n);
  add_residual(type, a.data(), sum.data(), dropout, first, sum.data(), n);
  apply_dropout(type, b.data(), dropout, first, dropped.data(), n);
  Doubles expected_sum, expected_dropped;
  double kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double mask = mask_of(dropout, first + static_cast<uint64_t>(i));
    expected_sum.push_back(a.at(i) + b.at(i) * mask), expected_dropped.push_back(b.at(i) * mask);
    kept += mask > 0;
  }
  CHECK(error_of(sum, expected_sum) < tolerance(type));
  CHECK(error_of(dropped, expected_dropped) < tolerance(type));
  CHECK(std::abs(kept / n - (1 - static_cast<double>(probability))) < 0.02);
}

TEST_CASE("an element on the edge of the dropout probability is kept as core::uniform has it") {
  int found = 0;
  for (uint64_t i = 0; found < 20; ++i) {
    const uint32_t word = zrt::core::random_word({42, 7, 3}, i), top = word >> 8;
    if (top % 2 == 0 || top >= 1u << 22) continue;
    // The probability lies between the element's number of 23 bits and the one it would have with a bit more.
    const float probability = (static_cast<float>(top) + 0.25f) * 0x1p-24f;
    KernelBuffer x = KernelBuffer(DType::f32, 1);
    x.set(0, 1);
    apply_dropout(DType::f32, x.data(), {{42, 7, 3}, probability}, i, x.data(), 1);
    REQUIRE((x.at(0) != 0) == (zrt::core::uniform(word) >= probability));
    ++found;
  }
}

TEST_CASE("element-wise kernels give the same bits at every address") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const int64_t n = 4099, shift = GENERATE(1, 4, 8);
  const KernelBuffer a = KernelBuffer::random(type, n), b = KernelBuffer::random(type, n),
                     c = KernelBuffer::random(type, n);
  const Dropout dropout{{1, 2, 3}, 0.3f};
  std::vector<std::vector<KernelBuffer>> results;
  for (const int64_t at : {int64_t{0}, shift}) {
    std::vector<Shifted> out;
    const auto next = [&](const KernelBuffer& values) { return out.emplace_back(type, values, at).data(); };
    out.reserve(32);
    gelu(type, next(a), next(c), n);
    gelu_backward(type, next(a), next(b), next(c), n);
    gelu_erf(type, next(a), next(c), n);
    gelu_erf_backward(type, next(a), next(b), next(c), n);
    swiglu(type, next(a), next(b), next(c), n);
    swiglu_backward(type, next(a), next(b), next(c), next(c), n);
    add_residual(type, next(a), next(b), dropout, 6, next(c), n);
    apply_dropout(type, next(a), dropout, 6, next(c), n);
    apply_dropout(type, next(a), {}, 6, next(c), n);
    const std::vector<double> frequencies{1, 0.5, 0.25, 0.125, 0.1, 0.05, 0.01, 0.005};
    rotary(type, {32, 4, 8, 16, 128}, frequencies.data(), 3, false, next(a));
    results.emplace_back();
    for (Shifted& each : out) results.back().push_back(each.values());
    for (const int64_t columns : {1, 8, 24, 300}) {
      Shifted x(type, a, at);
      KernelBuffer sums(DType::f32, columns), workspace = workspace_of(bias_gradient_workspace(n / columns, columns));
      bias_gradient(type, x.data(), n / columns, columns, columns, {sums.data(), DType::f32, false}, workspace.data());
      results.back().push_back(sums);
    }
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("halves of a sum have the same bits at every address, whatever they look like as numbers") {
  const int64_t n = 4099;
  const KernelBuffer x = KernelBuffer::random(DType::f32, n), hi = KernelBuffer::random(DType::bf16, n);
  std::vector<std::vector<uint16_t>> results;
  for (const int64_t shift : {0, 1}) {
    Shifted terms(DType::f32, x, shift), high(DType::bf16, hi, shift), low(DType::bf16, hi, shift);
    low.set_bits([](int64_t i) { return static_cast<uint16_t>(i * 16); });  // among them what NaN looks like
    for (const SumPart part : {SumPart::middle, SumPart::first, SumPart::middle}) {
      split_add(terms.floats(), static_cast<zrt::core::bf16*>(high.data()), static_cast<uint16_t*>(low.data()), part,
                true, n);
    }
    results.push_back(low.bits());
    const std::vector<uint16_t> top = high.bits();
    results.back().insert(results.back().end(), top.begin(), top.end());
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("a sum kept in two halves is rounded once") {
  const int64_t n = 40003;
  const bool accumulate = GENERATE(false, true);
  KernelBuffer sum = KernelBuffer::random(DType::bf16, n), low(DType::bf16, n);
  std::vector<float> expected(index(n));
  for (int64_t i = 0; accumulate && i < n; ++i) expected[index(i)] = static_cast<float>(sum.at(i));
  for (const SumPart part : {SumPart::first, SumPart::middle, SumPart::middle, SumPart::last}) {
    KernelBuffer x = KernelBuffer::random(DType::f32, n);
    for (int64_t i = 0; i < n; ++i) expected[index(i)] += static_cast<float>(x.at(i));
    split_add(x.floats(), static_cast<zrt::core::bf16*>(sum.data()), static_cast<uint16_t*>(low.data()), part,
              accumulate, n);
  }
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    wrong += sum.at(i) != static_cast<double>(zrt::core::to_float(zrt::core::to_bf16(expected[index(i)])));
  }
  CHECK(wrong == 0);
}

TEST_CASE("kernels of AVX-512 give the bits of those of AVX2", "[cpu]") {
  ZRT_ONLY_ON_CPU();
  using zrt::core::Isa;
  const int64_t n = 301;
  const auto& base = cpu::vector_kernels(Isa::avx2);
  for (const Isa isa : zrt::test::compiled_isas()) {
    const auto& wide = cpu::vector_kernels(isa);
    KernelBuffer s = KernelBuffer::random(DType::f32, n, 5), dp = KernelBuffer::random(DType::f32, n);
    KernelBuffer s2 = s, dp2 = dp, p(DType::bf16, n), p2 = p, ds = p, ds2 = p;
    using zrt::core::bf16;
    base.bf16.softmax_backward(s.floats(), dp.floats(), static_cast<bf16*>(p.data()), static_cast<bf16*>(ds.data()),
                               n - 5, n, 0.3f, 1.5f, nullptr);
    wide.bf16.softmax_backward(s2.floats(), dp2.floats(), static_cast<bf16*>(p2.data()), static_cast<bf16*>(ds2.data()),
                               n - 5, n, 0.3f, 1.5f, nullptr);
    CHECK(p == p2);
    CHECK(ds == ds2);
    const KernelBuffer gamma = KernelBuffer::random(DType::f32, n);
    const float* g = static_cast<const float*>(gamma.data());
    KernelBuffer y(DType::f32, n), y2(DType::f32, n);
    base.f32.layernorm.forward(dp.floats(), g, g, y.floats(), nullptr, nullptr, 1e-5f, 0, 1, n);
    wide.f32.layernorm.forward(dp.floats(), g, g, y2.floats(), nullptr, nullptr, 1e-5f, 0, 1, n);
    CHECK(y == y2);
    base.f32.rmsnorm.forward(dp.floats(), g, nullptr, y.floats(), nullptr, nullptr, 1e-5f, 0, 1, n);
    wide.f32.rmsnorm.forward(dp.floats(), g, nullptr, y2.floats(), nullptr, nullptr, 1e-5f, 0, 1, n);
    CHECK(y == y2);
    base.f32.swiglu_backward(dp.floats(), g, y.floats(), s.floats(), n);
    wide.f32.swiglu_backward(dp.floats(), g, y2.floats(), s2.floats(), n);
    CHECK(y == y2);
    CHECK(s == s2);
    base.f32.geglu_backward(dp.floats(), g, y.floats(), s.floats(), n);
    wide.f32.geglu_backward(dp.floats(), g, y2.floats(), s2.floats(), n);
    CHECK(y == y2);
    CHECK(s == s2);
    base.f32.soft_cap(s.floats(), 0.7f, n);
    wide.f32.soft_cap(s2.floats(), 0.7f, n);
    CHECK(s == s2);
    base.f32.rotate(y.floats(), g, dp.floats(), n / 2, n / 2);
    wide.f32.rotate(y2.floats(), g, dp.floats(), n / 2, n / 2);
    CHECK(y == y2);
    base.f32.gelu(dp.floats(), y.floats(), n);
    wide.f32.gelu(dp.floats(), y2.floats(), n);
    CHECK(y == y2);
    base.f32.gelu_erf_backward(dp.floats(), s.floats(), y.floats(), n);
    wide.f32.gelu_erf_backward(dp.floats(), s2.floats(), y2.floats(), n);
    CHECK(y == y2);
    CHECK(s == s2);
    base.dropout_mask({9, 8, 7, 0.3f}, 13, y.floats(), n);
    wide.dropout_mask({9, 8, 7, 0.3f}, 13, y2.floats(), n);
    CHECK(y == y2);
    CHECK(base.f32.cross_entropy(y.floats(), n, 5, 0, 0.5f) == wide.f32.cross_entropy(y2.floats(), n, 5, 0, 0.5f));
    CHECK(y == y2);
  }
}

TEST_CASE("results do not depend on the number of threads") {
  const int64_t rows = 301, C = 130;
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const KernelBuffer x = KernelBuffer::random(type, rows * C), gamma = KernelBuffer::random(type, C),
                     dy = KernelBuffer::random(type, rows * C);
  std::vector<KernelBuffer> results;
  for (const int threads : {1, 2, 3}) {
    zrt::core::set_threads(threads);
    KernelBuffer y(type, rows * C), mean(DType::f32, rows), rstd(DType::f32, rows), g(type, C), b(type, C), d = dy;
    norm(NormKind::layer, type, x.data(), gamma.data(), gamma.data(), y.data(), mean.floats(), rstd.floats(), 1e-5f,
         {rows, C});
    KernelBuffer workspace = workspace_of(norm_backward_workspace(NormKind::layer, rows, C));
    norm_backward(NormKind::layer, type, x.data(), gamma.data(), dy.data(), mean.floats(), rstd.floats(), nullptr,
                  d.data(), {g.data(), type, false}, {b.data(), type, false}, {rows, C}, workspace.data());
    add_residual(type, x.data(), y.data(), {{1, 2, 3}, 0.2f}, 5, y.data(), rows * C);
    gelu_backward(type, x.data(), d.data(), y.data(), rows * C);
    for (KernelBuffer* buffer : {&y, &mean, &rstd, &g, &b, &d}) results.push_back(*buffer);
  }
  zrt::core::set_threads(1);
  for (size_t i = 0; i < 6; ++i) {
    CHECK(results[i] == results[i + 6]);
    CHECK(results[i] == results[i + 12]);
  }
}

TEST_CASE("the kernels refuse types the CPU does not compute in") {
  CHECK_THROWS_WITH(gelu(DType::i32, nullptr, nullptr, 0), Catch::Matchers::Contains("int32"));
}

}  // namespace zrt::kernels_test
