// Products of operands that are rounded to e4m3.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "catch.h"
#include "core/parallel.h"
#include "models/kernels/fp8.h"
#include "models/kernels/gemm.h"
#include "tests/models/kernel_data.h"
#include "tests/models/product_bounds.h"

namespace zrt::gemm_fp8_test {

using zrt::core::DType;
using zrt::models::Epilogue;
using zrt::models::find_gemm;
using zrt::models::fp8_exponent;
using zrt::models::GemmSpec;
using namespace zrt::test;

namespace {

constexpr DType bf16 = DType::bf16;

GemmSpec fp8_spec(int64_t M, int64_t N, int64_t K, bool trans_a, bool trans_b, int64_t gap, DType c) {
  GemmSpec spec{M, N, K, trans_a, trans_b, (trans_a ? M : K) + gap, (trans_b ? K : N) + gap, N, bf16, bf16, c};
  spec.fp8 = true;
  return spec;
}

struct Problem {
  KernelBuffer a, b, c, bias, add, aux;
  explicit Problem(const GemmSpec& s, double a_range = 3, double b_range = 0.02)
      : a(KernelBuffer::random(bf16, (s.trans_a ? s.K : s.M) * s.lda, a_range)),
        b(KernelBuffer::random(bf16, (s.trans_b ? s.N : s.K) * s.ldb, b_range)),
        c(KernelBuffer::random(s.c, s.M * s.ldc)),
        bias(KernelBuffer::random(bf16, s.N)),
        add(KernelBuffer::random(s.c, s.M * s.ldc)),
        aux(KernelBuffer::random(s.c, s.M * s.ldc, 3)) {}
};

Problem run(const GemmSpec& s, Problem problem) {
  const auto& gemm = find_gemm(s);
  KernelBuffer workspace(DType::f32, static_cast<int64_t>(gemm.workspace_bytes() / 4 + 64));
  gemm.run({problem.a.data(), problem.b.data(), problem.c.data(), problem.bias.data(), problem.add.data(),
            problem.aux.data(), workspace.data()});
  return problem;
}

// x / unit rounded to a whole number of units, ties to even.
double rounded(double x, double unit) {
  return std::nearbyint(x / unit) * unit;
}

// A number of at most 448 rounded to e4m3, from the definition: 3 bits behind the first, none below 2^-9.
double to_e4m3(double x) {
  if (x == 0) return 0;
  return rounded(x, std::ldexp(1.0, std::max(std::ilogb(x), -6) - 3));
}

// The matrix as fp8 products see it; what lies between its rows stays.
Doubles quantised(const KernelBuffer& matrix, int64_t rows, int64_t columns, int64_t ld) {
  Doubles x = doubles(matrix);
  double largest = 0;
  const auto each = [&](auto&& change) {
    for (int64_t i = 0; i < rows * columns; ++i) change(x[static_cast<size_t>(i / columns * ld + i % columns)]);
  };
  each([&](double v) { largest = std::max(largest, std::abs(v)); });
  const double scale = largest == 0 ? 1 : std::exp2(std::floor(std::log2(448 / largest)));
  each([&](double& v) { v = to_e4m3(v * scale) / scale; });
  return x;
}

double gelu(double x) {
  return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double t = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

struct Results {
  Doubles c, aux;
};

Results reference(const GemmSpec& s, const Problem& p, bool quantise) {
  Results result{doubles(p.c), doubles(p.aux)};
  const Doubles a = quantise ? quantised(p.a, s.trans_a ? s.K : s.M, s.trans_a ? s.M : s.K, s.lda) : doubles(p.a);
  const Doubles b = quantise ? quantised(p.b, s.trans_b ? s.N : s.K, s.trans_b ? s.K : s.N, s.ldb) : doubles(p.b);
  for (int64_t m = 0; m < s.M; ++m) {
    for (int64_t n = 0; n < s.N; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < s.K; ++k) {
        sum += a[static_cast<size_t>(s.trans_a ? k * s.lda + m : m * s.lda + k)] *
               b[static_cast<size_t>(s.trans_b ? n * s.ldb + k : k * s.ldb + n)];
      }
      const size_t at = static_cast<size_t>(m * s.ldc + n);
      double &c = result.c[at], &aux = result.aux[at];
      c = (s.accumulate ? c : 0) + (s.add ? p.add.at(m * s.ldc + n) : 0) + sum + (s.bias ? p.bias.at(n) : 0);
      if (s.epilogue == Epilogue::gelu) aux = c, c = gelu(aux);
      if (s.epilogue == Epilogue::gelu_gradient) c *= gelu_slope(aux);
    }
  }
  return result;
}

// Against fp64 products of the rounded operands, as closely as sums of such numbers are; against those of the originals
// within what 3 bits of mantissa cost: at most 1/16 of every element.
void check(const GemmSpec& s, const Problem& problem) {
  INFO(s.text() << " by " << find_gemm(s).algorithm());
  const Problem result = run(s, problem);
  const Results expected = reference(s, problem, true);
  const double passes = s.add || s.epilogue != Epilogue::none ? 2 : 1;
  const double worst = s.c == DType::f32 ? product_error_e4m3(s.K) : passes * tolerance(s.c) + product_error_e4m3(s.K);
  CHECK(error_of(result.c, expected.c) < worst);
  CHECK(error_of(result.aux, expected.aux) < worst);
  CHECK(error_of(result.c, reference(s, problem, false).c) < 0.06);
  CHECK(result.a == problem.a);
  CHECK(result.b == problem.b);
  const Problem again = run(s, problem);
  CHECK(again.c == result.c);
  CHECK(again.aux == result.aux);
}

void check(const GemmSpec& s) {
  check(s, Problem(s));
}

}  // namespace

TEST_CASE("fp8 products of every role match fp64 products of the rounded operands") {
  zrt::core::set_threads(GENERATE(1, 2));
  const auto [M, N, K] = GENERATE(table<int64_t, int64_t, int64_t>({{16, 16, 16}, {48, 80, 112}, {16, 144, 272}}));
  // 3: rows of the operands on any address.
  const int64_t gap = GENERATE(0, 3, 16);
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const DType c : {bf16, DType::f32}) {
        GemmSpec spec = fp8_spec(M, N, K, trans_a, trans_b, gap, c);
        spec.ldc = gap == 16 ? N + 32 : N;
        check(spec);
        spec.accumulate = true;
        check(spec);
      }
    }
  }
  zrt::core::set_threads(1);
}

TEST_CASE("fp8 products have biases, additions, GELU and its gradient") {
  const DType c = GENERATE(DType::bf16, DType::f32);
  const bool turned = GENERATE(false, true);
  GemmSpec spec = fp8_spec(48, 96, 64, false, turned, 0, c);
  for (const bool bias : {false, true}) {
    spec.bias = bias;
    spec.add = false, spec.epilogue = Epilogue::none;
    check(spec);
    spec.add = true;
    check(spec);
    spec.add = false, spec.epilogue = Epilogue::gelu;
    check(spec);
  }
  spec.bias = false, spec.epilogue = Epilogue::gelu_gradient;
  check(spec);
}

TEST_CASE("operands of an fp8 product keep their size whatever it is") {
  const GemmSpec spec = fp8_spec(32, 32, 48, true, false, 0, DType::f32);
  // Powers of two around 448 and beyond what a scale of e4m3 alone could reach.
  const double a = GENERATE(1e-20, 3e-5, 447.9, 448.1, 1e20), b = GENERATE(1e-10, 1.0, 500.0);
  check(spec, Problem(spec, a, b));
}

TEST_CASE("the largest element of a large matrix is found wherever it lies") {
  const GemmSpec spec = fp8_spec(16, 16, 300'032, false, false, 0, DType::f32);
  Problem problem(spec, 0, 0);
  for (int64_t i = 0; i < spec.K * 16; ++i) problem.b.set(i, 1);
  const int64_t last = 16 * spec.K - 1;
  for (const int64_t at : {last / 3, last}) {
    problem.a.set(at, 1e5f);
    const Problem result = run(spec, problem);
    for (int64_t m = 0; m < 16; ++m) CHECK(result.c.at(m * 16) == (m == at / spec.K ? 98304 : 0));
    problem.a.set(at, 0);
  }
}

TEST_CASE("zeros, infinities and NaN pass through an fp8 product") {
  const bool turned = GENERATE(false, true);
  const GemmSpec spec = fp8_spec(16, 32, 48, turned, false, 0, DType::f32);
  Problem zero(spec);
  for (int64_t i = 0; i < zero.a.size(); ++i) zero.a.set(i, 0);
  CHECK(doubles(run(spec, zero).c) == Doubles(16 * 32, 0.0));
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    Problem problem(spec);
    problem.a.set(turned ? 5 * 16 + 3 : 3 * 48 + 5, bad);
    const Doubles c = doubles(run(spec, problem).c);
    for (int64_t m = 0; m < 16; ++m) {
      for (int64_t n = 0; n < 32; ++n) CHECK(std::isnan(c[static_cast<size_t>(m * 32 + n)]) == (m == 3));
    }
  }
}

TEST_CASE("an fp8 product of other sizes or types is the product without fp8") {
  for (const auto& [M, N, K, gap] :
       {std::array<int64_t, 4>{17, 16, 16, 0}, {16, 24, 16, 0}, {16, 16, 8, 0}, {16, 16, 16, 8}}) {
    GemmSpec spec = fp8_spec(M, N, K, false, true, 0, bf16);
    spec.ldc = N + gap;
    const auto& gemm = find_gemm(spec);
    spec.fp8 = false;
    CHECK(&find_gemm(spec) == &gemm);
  }
  GemmSpec wide = fp8_spec(16, 16, 16, false, true, 0, DType::f32);
  wide.a = wide.b = DType::f32;
  const auto& gemm = find_gemm(wide);
  wide.fp8 = false;
  CHECK(&find_gemm(wide) == &gemm);
}

TEST_CASE("fp8 makes a product of its own, with room for the rounded operands") {
  GemmSpec spec = fp8_spec(32, 48, 64, false, true, 0, bf16);
  const auto& gemm = find_gemm(spec);
  CHECK(spec.text().find(" fp8") != std::string::npos);
  spec.fp8 = false;
  CHECK(&find_gemm(spec) != &gemm);
  CHECK(gemm.workspace_bytes() >= find_gemm(spec).workspace_bytes() + 64 * (32 + 48));
}

TEST_CASE("the scale of a tensor is the largest power of two that leaves it within 448") {
  for (int binary = -149; binary < 128; ++binary) {
    for (const float fraction : {1.0f, 1.0625f, 1.75f, 1.7578125f, 1.9921875f}) {
      const float largest = std::ldexp(fraction, binary);
      if (largest == 0) continue;
      INFO(largest);
      const int exponent = fp8_exponent(std::bit_cast<uint32_t>(largest));
      const double scaled = std::ldexp(static_cast<double>(largest), exponent);
      CHECK(scaled <= 448);
      CHECK((2 * scaled > 448 || exponent == 117));
    }
  }
  CHECK(fp8_exponent(0) == 0);
  CHECK(fp8_exponent(0x7f800000u) == 0);
  CHECK(fp8_exponent(0x7fc00000u) == 0);
}

}  // namespace zrt::gemm_fp8_test
