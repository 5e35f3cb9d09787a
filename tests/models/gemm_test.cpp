#include "models/kernels/gemm.h"

#include <cmath>
#include <set>
#include <thread>

#include "catch.h"
#include "core/parallel.h"
#include "tests/models/kernel_data.h"
#include "tests/models/product_bounds.h"

namespace zrt::gemm_test {

using zrt::core::DType;
using zrt::models::Epilogue;
using zrt::models::find_gemm;
using zrt::models::GemmSpec;
using namespace zrt::test;

namespace {

struct Problem {
  KernelBuffer a, b, c, bias, add, aux;
  explicit Problem(const GemmSpec& s)
      : a(KernelBuffer::random(s.a, (s.trans_a ? s.K : s.M) * s.lda)),
        b(KernelBuffer::random(s.b, (s.trans_b ? s.N : s.K) * s.ldb)),
        c(KernelBuffer::random(s.c, s.M * s.ldc)),
        bias(KernelBuffer::random(s.a, s.N)),
        add(KernelBuffer::random(s.c, s.M * s.ldc)),
        aux(KernelBuffer::random(s.c, s.M * s.ldc, 3)) {}
};

// sqrt(2 / pi) (x + 0.044715 x³), its tanh the heart of GELU.
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

Results reference(const GemmSpec& s, const Problem& p) {
  Results result{doubles(p.c), doubles(p.aux)};
  const Doubles a = doubles(p.a), b = doubles(p.b);
  for (int64_t m = 0; m < s.M; ++m) {
    for (int64_t n = 0; n < s.N; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < s.K; ++k) {
        sum += a[static_cast<size_t>(s.trans_a ? k * s.lda + m : m * s.lda + k)] *
               b[static_cast<size_t>(s.trans_b ? n * s.ldb + k : k * s.ldb + n)];
      }
      const size_t at = static_cast<size_t>(m * s.ldc + n);
      double &c = result.c[at], &aux = result.aux[at];
      c = (s.accumulate ? c : 0) + (s.add ? p.add.at(m * s.ldc + n) : 0) + static_cast<double>(s.alpha) * sum +
          (s.bias ? p.bias.at(n) : 0);
      if (s.epilogue == Epilogue::gelu) aux = c, c = gelu(aux);
      if (s.epilogue == Epilogue::gelu_gradient) c *= gelu_slope(aux);
    }
  }
  return result;
}

Problem run(const GemmSpec& s, Problem problem) {
  const auto& gemm = find_gemm(s);
  KernelBuffer workspace(DType::f32, static_cast<int64_t>(gemm.workspace_bytes() / 4 + 64));
  gemm.run({problem.a.data(), problem.b.data(), problem.c.data(), problem.bias.data(), problem.add.data(),
            problem.aux.data(), workspace.data()});
  return problem;
}

void check(const GemmSpec& s) {
  INFO(s.text() << " by " << find_gemm(s).algorithm());
  const Problem problem(s);
  const Problem result = run(s, problem);
  const Results expected = reference(s, problem);
  // Between the product and what follows it there may be a rounding more.
  const double passes = s.add || s.epilogue != Epilogue::none ? 2 : 1;
  const double worst = s.c == DType::f32 ? product_error(s.a, s.K) : passes * tolerance(s.c);
  CHECK(error_of(result.c, expected.c) < worst);
  CHECK(error_of(result.aux, expected.aux) < worst);
  CHECK(result.add == problem.add);
  const Problem again = run(s, problem);
  CHECK(again.c == result.c);
  CHECK(again.aux == result.aux);
}

// Every role over one problem size, with and without accumulation; `gap` widens the leading dimensions.
void check_roles(int64_t rows, int64_t in, int64_t out, DType type, int64_t gap) {
  for (const DType result : std::set<DType>{DType::f32, type}) {
    for (const bool accumulate : {false, true}) {
      check({rows, out, in, false, false, in + gap, out + gap, out + gap, type, type, result, !accumulate, accumulate});
      check({rows, in, out, false, true, out + gap, out + gap, in + gap, type, type, result, false, accumulate});
      check({in, out, rows, true, false, in + gap, out + gap, out + gap, type, type, result, false, accumulate});
      check({in, out, rows, true, true, in + gap, rows + gap, out, type, type, result, false, accumulate});
    }
  }
}

}  // namespace

TEST_CASE("products of every role match fp64 over odd sizes and strides") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  zrt::core::set_threads(GENERATE(1, 2));
  check_roles(1, 40, 33, type, 0);
  check_roles(3, 17, 33, type, 0);
  check_roles(13, 64, 31, type, 5);
  check_roles(65, 49, 51, type, 0);
  check_roles(70, 90, 57, type, 3);
  zrt::core::set_threads(1);
}

TEST_CASE("products larger than a tile in every direction match fp64") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  zrt::core::set_threads(GENERATE(1, 2));
  check({530, 200, 60, false, false, 60, 1024, 200, type, type, type, true, false});
  check({60, 200, 1100, true, false, 60, 1024, 203, type, type, type, false, true});
  check({50, 3200, 50, false, type != DType::f32, 50, type != DType::f32 ? 50 : 4096, 3200, type, type, type});
  check({50, 3100, 1050, false, false, 1050, 4096, 3100, type, type, DType::f32, false, true});
  // Sums that wait apart for the next inner block, over several groups of packed columns and blocks of C.
  check({50, 700, 1050, false, false, 1050, 704, 700, type, type, type, true, false});
  check({20, 3400, 800, false, true, 800, 800, 3400, type, type, type, false, true});
  zrt::core::set_threads(1);
}

TEST_CASE("fp16 products of any size are zrt's own", "[cpu]") {
  ZRT_ONLY_ON_CPU();
  constexpr DType type = DType::f16;
  CHECK(find_gemm({1, 2, 3, false, false, 3, 2, 2, type, type, type}).algorithm() == "thin");
  CHECK(find_gemm({9, 2, 3, false, false, 3, 2, 2, type, type, type}).algorithm().find("tiles") == 0);
  check({530, 200, 20, false, false, 20, 203, 200, type, type, type, true, false});
  check({30, 200, 1100, true, false, 30, 200, 203, type, type, DType::f32, false, true});
}

TEST_CASE("a product can be scaled") {
  GemmSpec spec{60, 70, 80, false, true, 80, 80, 70};
  spec.alpha = 0.125f;
  check(spec);
  spec.a = spec.b = spec.c = DType::bf16;
  spec.accumulate = true;
  check(spec);
}

TEST_CASE("a product can add another matrix and pass through GELU or its gradient") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const DType result = GENERATE_COPY(
      filter([type](DType t) { return t == type || t == DType::f32; }, values({DType::f32, DType::bf16, DType::f16})));
  // Multiples of 8 with dense rows, which GPUs have fast kernels for; odd sizes; rows apart.
  const auto [rows, in, out, gap] = GENERATE(table<int64_t, int64_t, int64_t, int64_t>(
      {{48, 64, 96, 0}, {1, 8, 16, 0}, {33, 40, 64, 8}, {13, 17, 31, 0}, {65, 49, 51, 3}}));
  GemmSpec spec{rows, out, in, false, false, in + gap, out + gap, out + gap, type, type, result};
  for (const bool turned : {false, true}) {
    spec.trans_b = turned, spec.ldb = (turned ? in : out) + gap;
    spec.add = true, spec.epilogue = Epilogue::none;
    for (const bool bias : {false, true}) {
      spec.bias = bias;
      check(spec);
    }
    spec.add = false, spec.epilogue = Epilogue::gelu;
    for (const bool bias : {false, true}) {
      spec.bias = bias;
      check(spec);
    }
    spec.bias = false, spec.epilogue = Epilogue::gelu_gradient;
    check(spec);
  }
}

TEST_CASE("what a product adds may be its result") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  const int64_t gap = GENERATE(0, 3);
  GemmSpec spec{24, 40, 56, false, true, 56, 56, 40 + gap, type, type, type, true};
  const Problem problem(spec);
  spec.accumulate = true;
  const Problem accumulated = run(spec, problem);
  spec.accumulate = false, spec.add = true;
  Problem added = problem;
  const auto& gemm = find_gemm(spec);
  KernelBuffer workspace(DType::f32, static_cast<int64_t>(gemm.workspace_bytes() / 4 + 64));
  gemm.run(
      {added.a.data(), added.b.data(), added.c.data(), added.bias.data(), added.c.data(), nullptr, workspace.data()});
  CHECK(error_of(added.c, doubles(accumulated.c)) < 2 * tolerance(type));
}

TEST_CASE("products of matrices at any address and of columns of a wider matrix match fp64") {
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  const int64_t shift = GENERATE(1, 2, 4, 8);  // elements
  const GemmSpec spec{40, 48, 64, false, true, 64, 64, 144, type, type, type, true};
  const Problem problem(spec);
  const Doubles expected = reference(spec, problem).c;
  const int64_t size = static_cast<int64_t>(zrt::core::dtype_size(type));
  // Every operand `shift` elements behind a multiple of 64 bytes; the result becomes the columns behind them.
  const auto shifted = [&](const KernelBuffer& from) {
    KernelBuffer to(type, from.size() + shift);
    for (int64_t i = 0; i < from.size(); ++i) to.set(i + shift, static_cast<float>(from.at(i)));
    return to;
  };
  KernelBuffer a = shifted(problem.a), b = shifted(problem.b), c = shifted(problem.c), bias = shifted(problem.bias);
  const auto& gemm = find_gemm(spec);
  KernelBuffer workspace(DType::f32, static_cast<int64_t>(gemm.workspace_bytes() / 4 + 64));
  const auto at = [&](KernelBuffer& buffer) { return static_cast<std::byte*>(buffer.data()) + shift * size; };
  gemm.run(at(a), at(b), at(c), at(bias), workspace.data());
  KernelBuffer result(type, problem.c.size());
  for (int64_t i = 0; i < result.size(); ++i) result.set(i, static_cast<float>(c.at(i + shift)));
  CHECK(error_of(result, expected) < tolerance(type));
  for (int64_t i = 0; i < shift; ++i) CHECK(c.at(i) == KernelBuffer(type, 1).at(0));
}

TEST_CASE("concurrent callers of one product get the same bits") {
  const GemmSpec spec{64, 96, 80, false, false, 80, 96, 96, DType::bf16, DType::bf16, DType::bf16, true};
  const Problem problem(spec);
  const KernelBuffer expected = run(spec, problem).c;
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      const OnTestDevice here;
      for (int i = 0; i < 20; ++i) equal[t] += run(spec, problem).c == expected;
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(equal == std::vector<int>(4, 20));
}

TEST_CASE("the kernel table's hash changes exactly when a new product is found") {
  find_gemm({5, 6, 7, false, false, 7, 6, 6});
  const std::string before = zrt::models::kernel_table_hash();
  CHECK(before.size() == 16);
  find_gemm({5, 6, 7, false, false, 7, 6, 6});
  CHECK(zrt::models::kernel_table_hash() == before);
  find_gemm({5, 6, 8, false, false, 8, 6, 6});
  CHECK(zrt::models::kernel_table_hash() != before);
}

TEST_CASE("products that cannot be made are refused by name") {
  const GemmSpec bytes{4, 4, 4, false, false, 4, 4, 4, DType::u8, DType::u8, DType::u8};
  CHECK_THROWS_WITH(find_gemm(bytes), Catch::Matchers::Contains("uint8") && Catch::Matchers::Contains("4x4x4"));
  const GemmSpec narrow{4, 4, 4, false, false, 3, 4, 4};
  CHECK_THROWS_AS(find_gemm(narrow), zrt::core::Error);
  GemmSpec twice{4, 4, 4, false, false, 4, 4, 4};
  twice.add = twice.accumulate = true;
  CHECK_THROWS_WITH(find_gemm(twice), Catch::Matchers::Contains("add") && Catch::Matchers::Contains("4x4x4"));
}

}  // namespace zrt::gemm_test
