#include "models/kernels/gemm.h"

#include <set>
#include <thread>

#include "catch.h"
#include "core/parallel.h"
#include "tests/models/kernel_data.h"

using zrt::core::DType;
using zrt::models::find_gemm;
using zrt::models::GemmSpec;
using namespace zrt::test;

namespace {

struct Problem {
  KernelBuffer a, b, c, bias;
  explicit Problem(const GemmSpec& s)
      : a(KernelBuffer::random(s.a, (s.trans_a ? s.K : s.M) * s.lda)),
        b(KernelBuffer::random(s.b, (s.trans_b ? s.N : s.K) * s.ldb)),
        c(KernelBuffer::random(s.c, s.M * s.ldc)),
        bias(KernelBuffer::random(s.a, s.N)) {}
};

Doubles reference(const GemmSpec& s, const Problem& p) {
  Doubles result = doubles(p.c);
  const Doubles a = doubles(p.a), b = doubles(p.b);
  for (int64_t m = 0; m < s.M; ++m) {
    for (int64_t n = 0; n < s.N; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < s.K; ++k) {
        sum += a[static_cast<size_t>(s.trans_a ? k * s.lda + m : m * s.lda + k)] *
               b[static_cast<size_t>(s.trans_b ? n * s.ldb + k : k * s.ldb + n)];
      }
      double& c = result[static_cast<size_t>(m * s.ldc + n)];
      c = (s.accumulate ? c : 0) + static_cast<double>(s.alpha) * sum + (s.bias ? p.bias.at(n) : 0);
    }
  }
  return result;
}

KernelBuffer run(const GemmSpec& s, Problem problem) {
  const auto& gemm = find_gemm(s);
  KernelBuffer workspace(DType::f32, static_cast<int64_t>(gemm.workspace_bytes() / 4 + 64));
  gemm.run(problem.a.data(), problem.b.data(), problem.c.data(), problem.bias.data(), workspace.data());
  return problem.c;
}

void check(const GemmSpec& s) {
  INFO(s.text() << " by " << find_gemm(s).algorithm());
  const Problem problem(s);
  const KernelBuffer result = run(s, problem);
  CHECK(error_of(result, reference(s, problem)) < (s.c == DType::f32 ? 2e-6 : tolerance(s.c)));
  CHECK(run(s, problem) == result);
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
  // In fp32 only leading dimensions that are multiples of 4 KiB are multiplied by tiles.
  check({530, 200, 60, false, false, 60, 1024, 200, type, type, type, true, false});
  check({60, 200, 1100, true, false, 60, 1024, 203, type, type, type, false, true});
  check({50, 3200, 50, false, type != DType::f32, 50, type != DType::f32 ? 50 : 4096, 3200, type, type, type});
  check({50, 3100, 1050, false, false, 1050, 4096, 3100, type, type, DType::f32, false, true});
  zrt::core::set_threads(1);
}

TEST_CASE("fp16 products of any size go through fp32 tiles", "[cpu]") {
  ZRT_ONLY_ON_CPU();
  constexpr DType type = DType::f16;
  CHECK(find_gemm({1, 2, 3, false, false, 3, 2, 2, type, type, type}).algorithm().find("tiles") == 0);
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

TEST_CASE("concurrent callers of one product get the same bits") {
  const GemmSpec spec{64, 96, 80, false, false, 80, 96, 96, DType::bf16, DType::bf16, DType::bf16, true};
  const Problem problem(spec);
  const KernelBuffer expected = run(spec, problem);
  std::vector<std::thread> threads;
  std::vector<int> equal(4);
  for (size_t t = 0; t < equal.size(); ++t) {
    threads.emplace_back([&, t] {
      const OnTestDevice here;
      for (int i = 0; i < 20; ++i) equal[t] += run(spec, problem) == expected;
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
}
