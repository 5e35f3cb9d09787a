// zrt's own ways to make a product, at every level that the processor has, whatever the table would choose.
#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "catch.h"
#include "core/parallel.h"
#include "models/kernels/cpu/gemm_impl.h"
#include "tests/isa_levels.h"
#include "tests/models/kernel_data.h"

using zrt::core::Isa;
using zrt::models::GemmSpec;
using zrt::models::cpu::choose_way;
using zrt::models::cpu::make_gemm_by;
using zrt::models::cpu::Way;
using namespace zrt::test;

namespace {

constexpr std::array<DType, 3> element_types{DType::f32, DType::bf16, DType::f16};

struct WayProblem {
  KernelBuffer a, b, c, bias;
  // Buffers end with the last element, so that a sanitizer sees any read or write behind them.
  explicit WayProblem(const GemmSpec& s)
      : a(KernelBuffer::random(s.a, ((s.trans_a ? s.K : s.M) - 1) * s.lda + (s.trans_a ? s.M : s.K))),
        b(KernelBuffer::random(s.b, ((s.trans_b ? s.N : s.K) - 1) * s.ldb + (s.trans_b ? s.K : s.N))),
        c(KernelBuffer::random(s.c, (s.M - 1) * s.ldc + s.N)),
        bias(KernelBuffer::random(s.a, s.N)) {}
};

KernelBuffer multiply(const GemmSpec& s, const WayProblem& problem, Way way, Isa level) {
  KernelBuffer c = problem.c;
  const auto gemm = make_gemm_by(way, s, level);
  KernelBuffer workspace(DType::f32, static_cast<int64_t>((gemm->workspace_bytes() + 3) / 4));
  gemm->run(problem.a.data(), problem.b.data(), c.data(), problem.bias.data(), workspace.data());
  return c;
}

// An element is a chain of at most 384 fused multiply-adds per block of the inner dimension, the sum of the blocks, and
// an addition each for the bias and the old C: each step errs by at most 2^-24 of what its partial sum can be, which is
// at most the sum of the magnitudes. Scaling rounds A once more, as the dot products' tree adds at most 4 steps. Then
// the result is rounded to its type, near zero to a multiple of 2^-25.
int64_t wrong_elements(const GemmSpec& s, const WayProblem& p, const KernelBuffer& c) {
  const double unit = std::ldexp(1.0, -24);
  const double steps = static_cast<double>(std::min<int64_t>(s.K, 384) + (s.K + 383) / 384 + 2 + 1 + 4);
  const double rounding = std::ldexp(1.0, s.c == DType::f32 ? -24 : s.c == DType::bf16 ? -8 : -11);
  const Doubles a = doubles(p.a), b = doubles(p.b);
  int64_t wrong = 0;
  for (int64_t at = 0; at < c.size(); ++at) {
    const int64_t m = at / s.ldc, n = at % s.ldc;
    if (n >= s.N) {  // between the rows
      wrong += c.at(at) != p.c.at(at);
      continue;
    }
    double sum = 0, size = 0;
    for (int64_t k = 0; k < s.K; ++k) {
      const double term = static_cast<double>(s.alpha) *
                          a[static_cast<size_t>(s.trans_a ? k * s.lda + m : m * s.lda + k)] *
                          b[static_cast<size_t>(s.trans_b ? n * s.ldb + k : k * s.ldb + n)];
      sum += term, size += std::abs(term);
    }
    if (s.accumulate) sum += p.c.at(at), size += std::abs(p.c.at(at));
    if (s.bias) sum += p.bias.at(n), size += std::abs(p.bias.at(n));
    const double error = steps * unit * size;
    const double most = error + rounding * (std::abs(sum) + error) + std::ldexp(1.0, -25);
    wrong += !(std::abs(c.at(at) - sum) <= most);
  }
  return wrong;
}

// The index-th mixture of types, transpositions, strides, addition, bias and scale. 1296 is their number.
GemmSpec mixture(int64_t M, int64_t N, int64_t K, size_t index) {
  const auto next = [&](size_t count) {
    const size_t choice = index % count;
    index /= count;
    return choice;
  };
  GemmSpec s{M, N, K};
  s.a = element_types[next(3)], s.b = element_types[next(3)], s.c = element_types[next(3)];
  s.trans_a = next(2) == 1, s.trans_b = next(2) == 1, s.accumulate = next(2) == 1;
  const auto gap = static_cast<int64_t>(next(2) * 3);
  const size_t last = next(3);
  s.bias = last == 1, s.alpha = last == 2 ? 0.3f : 1.0f;
  s.lda = (s.trans_a ? M : K) + gap, s.ldb = (s.trans_b ? K : N) + gap, s.ldc = N + gap;
  return s;
}

void check_ways(const GemmSpec& s) {
  const WayProblem problem(s);
  for (const Way way : {Way::tiles, Way::thin}) {
    if (way == Way::thin && s.M > 16) continue;
    KernelBuffer first(s.c, 1);
    for (const Isa level : compiled_isas()) {
      const KernelBuffer c = multiply(s, problem, way, level);
      INFO(s.text() << " by " << zrt::models::cpu::way_names[static_cast<size_t>(way)] << " at "
                    << zrt::core::isa_name(level));
      if (level == Isa::avx2) {
        first = c;
        REQUIRE(wrong_elements(s, problem, c) == 0);
      } else {
        REQUIRE(c == first);
      }
    }
  }
}

}  // namespace

TEST_CASE("own products match fp64 in every mixture of types and roles", "[cpu]") {
  const auto [m, n, k] = GENERATE(table<int64_t, int64_t, int64_t>({{3, 33, 20}, {29, 49, 37}}));
  for (size_t index = 0; index < 1296; ++index) check_ways(mixture(m, n, k, index));
}

TEST_CASE("own products match fp64 at every size around their tiles", "[cpu]") {
  size_t index = 0;
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 27, 28, 70}) {
    for (const int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 70}) {
      for (const int64_t k : {1, 2, 7, 8, 9, 15, 16, 17, 31, 70}) check_ways(mixture(m, n, k, index += 7));
    }
  }
}

TEST_CASE("own products match fp64 at sizes around their blocks", "[cpu]") {
  const auto [m, n, k] = GENERATE(table<int64_t, int64_t, int64_t>({{125, 3, 70},
                                                                    {127, 40, 385},
                                                                    {253, 17, 384},
                                                                    {2050, 5, 9},
                                                                    {4, 1537, 12},
                                                                    {3, 257, 300},
                                                                    {9, 1600, 258},
                                                                    {2049, 3, 260},
                                                                    {11, 18, 5000}}));
  for (size_t index = 0; index < 1296; index += 61) check_ways(mixture(m, n, k, index));
}

TEST_CASE("own products have the same bits on any number of threads", "[cpu]") {
  const auto [m, n, k] = GENERATE(table<int64_t, int64_t, int64_t>({{5, 600, 300}, {150, 90, 520}, {300, 40, 20}}));
  for (size_t index = 0; index < 1296; index += 119) {
    const GemmSpec s = mixture(m, n, k, index);
    const WayProblem problem(s);
    for (const Way way : {Way::tiles, Way::thin}) {
      const KernelBuffer one = multiply(s, problem, way, Isa::avx2);
      for (const int threads : {2, 3}) {
        zrt::core::set_threads(threads);
        CHECK(multiply(s, problem, way, Isa::avx2) == one);
        zrt::core::set_threads(1);
      }
    }
  }
}

TEST_CASE("NaN and infinity pass through own products", "[cpu]") {
  GemmSpec s{20, 40, 30, false, false, 30, 40, 40, DType::bf16, DType::bf16, DType::bf16};
  for (const Way way : {Way::tiles, Way::thin}) {
    WayProblem problem(s);
    problem.a.set(3 * 30 + 5, INFINITY), problem.a.set(7 * 30 + 29, NAN);
    const KernelBuffer c = multiply(s, problem, way, compiled_isas().back());
    for (int64_t n = 0; n < s.N; ++n) {
      CHECK(std::isinf(c.at(3 * s.N + n)));
      CHECK(std::isnan(c.at(7 * s.N + n)));
      CHECK(std::isfinite(c.at(6 * s.N + n)));
    }
  }
}

TEST_CASE("the table takes oneDNN for bf16 at full rate alone, and never at avx2", "[cpu]") {
  for (size_t index = 0; index < 1296; ++index) {
    const GemmSpec s = mixture(64, 64, 64, index);
    const bool bf16 = s.a == DType::bf16 && s.b == DType::bf16;
    CHECK(choose_way(s, Isa::avx2, true) != Way::dnnl);
    CHECK(choose_way(s, Isa::amx, false) != Way::dnnl);
    CHECK((choose_way(s, Isa::avx512_bf16, true) == Way::dnnl) == (bf16 && s.c != DType::f16));
  }
}
