#include "optimizer/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/philox.h"
#include "isa_levels.h"
#include "optimizer/norm_kernels.h"
#include "thread_counts.h"

namespace zrt::optimizer::exact_sum_test {
namespace {

using core::DType;

constexpr double infinity = std::numeric_limits<double>::infinity();

bool equal(const ExactSum& a, const ExactSum& b) {
  return a == b;
}

// Numbers of both signs over the whole range of exponents.
std::vector<double> mixed(size_t count, int low, int high) {
  std::vector<double> values;
  for (uint64_t i = 0; i < count; ++i) {
    const auto words = core::philox({.seed = 11}, i);
    const int exponent = low + static_cast<int>(words[0] % static_cast<uint32_t>(high - low));
    values.push_back(std::ldexp(1 + words[1] * 0x1p-32, exponent) * (words[2] & 1 ? -1 : 1));
  }
  return values;
}

double sum_of(std::initializer_list<double> values) {
  ExactSum sum;
  for (double v : values) sum.add(v);
  return sum.value();
}

TEST_CASE("any order and any grouping give equal limbs") {
  std::vector<double> values = mixed(2000, -200, 94);
  ExactSum reference;
  for (double v : values) reference.add(v);
  for (uint64_t turn = 0; turn < 10; ++turn) {
    for (size_t i = values.size() - 1; i > 0; --i) {
      std::swap(values[i], values[core::random_word({.seed = turn}, i) % (i + 1)]);
    }
    std::vector<ExactSum> groups(1 + turn * 7);
    for (size_t i = 0; i < values.size(); ++i) groups[i % groups.size()].add(values[i]);
    ExactSum total;
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) total.add(*group);
    CHECK(equal(total, reference));
  }
}

TEST_CASE("a carry passes through every limb that it leaves as it was") {
  // The limbs of a small negative sum above its own bits are all ones: with a carry they add nothing and hand it on.
  for (int low = -185; low < 60; low += 7) {
    for (int high = low + 1; high < 95; high += 9) {
      INFO("2^" << high << " - 2^" << low);
      ExactSum total, negative, one_by_one;
      total.add(std::ldexp(1.0, high));
      negative.add(-std::ldexp(1.0, low));
      total.add(negative);
      one_by_one.add(std::ldexp(1.0, high));
      one_by_one.add(-std::ldexp(1.0, low));
      CHECK(equal(total, one_by_one));
      total.add(negative);
      one_by_one.add(-std::ldexp(1.0, low));
      CHECK(equal(total, one_by_one));
    }
  }
}

TEST_CASE("the value is the exact sum rounded once") {
  CHECK(sum_of({}) == 0);
  CHECK(sum_of({0.0, -0.0}) == 0);
  CHECK(sum_of({1, 2, 0.5}) == 3.5);
  CHECK(sum_of({-1, -2}) == -3);
  CHECK(sum_of({0x1p90, 0x1p-190, -0x1p90}) == 0x1p-190);
  CHECK(sum_of({-0x1p94, 0x1p-150, 0x1p94}) == 0x1p-150);
  CHECK(sum_of({0x1p53, 1}) == 0x1p53);                // a tie goes to even
  CHECK(sum_of({0x1p53, 1, 0x1p-190}) == 0x1p53 + 2);  // but not with a bit below
  CHECK(sum_of({0x1p53, 2, 1}) == 0x1p53 + 4);
  CHECK(sum_of({-0x1p53, -1, -0x1p-190}) == -0x1p53 - 2);
  CHECK(sum_of({0x1p-191}) == 0x1p-190);  // half of the last bit rounds up, less vanishes
  CHECK(sum_of({0x1.8p-192}) == 0);
  CHECK(sum_of({0x1p-300}) == 0);
  CHECK(sum_of({0x1.fffffffffffffp-100}) == 0x1.fffffffffffffp-100);
}

TEST_CASE("random sums agree with a compensated sum in long double to one unit in the last place") {
  for (int low : {-150, -60, 0}) {
    ExactSum sum;
    long double total = 0, lost = 0;
    for (double v : mixed(3000, low, low + 60)) {
      sum.add(v);
      const long double x = v, next = total + x;
      lost += std::abs(total) >= std::abs(x) ? (total - next) + x : (x - next) + total;
      total = next;
    }
    const double expected = static_cast<double>(total + lost), value = sum.value();
    CHECK(value >= std::nextafter(expected, -infinity));
    CHECK(value <= std::nextafter(expected, infinity));
  }
}

TEST_CASE("NaN, infinity and sums too large are counted and make the value NaN") {
  ExactSum sum;
  sum.add(1.0);
  sum.add(std::nan(""));
  sum.add(infinity);
  sum.add(-infinity);
  sum.add(0x1p95);
  sum.add(-0x1p200);
  CHECK(sum.non_finite == 5);
  CHECK(std::isnan(sum.value()));
  ExactSum total;
  total.add(0x1.fffffffffffffp94);
  CHECK(total.non_finite == 0);
  total.add(sum);
  CHECK(total.non_finite == 5);
}

TEST_CASE("the largest chunks can be summed for a trillion elements") {
  ExactSum sum;
  sum.add(0x1p94);
  for (int doubling = 0; doubling < 34; ++doubling) sum.add(ExactSum(sum));  // 2^34 chunks
  CHECK(sum.value() == 0x1p128);
}

test::Visible<float> values(size_t count) {
  test::Visible<float> x;
  for (uint64_t i = 0; i < count; ++i) {
    const int exponent = static_cast<int>(core::random_word({.seed = 5}, i) % 60) - 40;
    x.push_back(std::ldexp(core::random_normal({.seed = 6}, i), exponent));
  }
  return x;
}

// add_squares to a copy of `sum`, wherever the test runs.
void add(ExactSum& sum, int64_t n, const void* data, DType type) {
  test::Visible<ExactSum> sums(1, sum);
  const auto* bytes = static_cast<const std::byte*>(data);
  const test::Lent there(sums);
  const test::Visible<std::byte> elements(bytes, bytes + static_cast<size_t>(n) * core::dtype_size(type));
  const test::Lent numbers(elements);
  add_squares(*there.data(), n, numbers.data(), type);
  test::settle();
  there.fetch();
  sum = sums[0];
}

test::Visible<uint16_t> narrow(const test::Visible<float>& x, DType type) {
  test::Visible<uint16_t> y;
  for (float v : x) y.push_back(type == DType::bf16 ? core::to_bf16(v).bits : core::to_f16(v).bits);
  return y;
}

// One chunk in the documented lane order.
double chunk_reference(const float* x) {
  double lane[8];
  for (int l = 0; l < 8; ++l) {
    volatile double total = 0;
    for (int i = l; i < 64; i += 8) total = total + static_cast<double>(x[i]) * static_cast<double>(x[i]);
    lane[l] = total;
  }
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

TEST_CASE("every instruction set sums a chunk in the documented order", "[cpu]") {
  ZRT_ONLY_ON_CPU();
  const DType type = GENERATE(DType::f32, DType::bf16, DType::f16);
  test::Visible<float> x = values(64 * 50);
  const test::Visible<uint16_t> half = narrow(x, type);
  for (size_t i = 0; type != DType::f32 && i < x.size(); ++i) {
    x[i] = type == DType::bf16 ? to_float(core::bf16{half[i]}) : to_float(core::f16{half[i]});
  }
  const void* data = type == DType::f32 ? static_cast<const void*>(x.data()) : half.data();
  for (const core::Isa isa : test::compiled_isas()) {
    std::vector<double> sums(50);
    norm_kernels(isa).chunk_squares[static_cast<size_t>(type)](data, 50, sums.data());
    for (size_t c = 0; c < 50; ++c) CHECK(sums[c] == chunk_reference(x.data() + 64 * c));
  }
}

TEST_CASE("add_squares gives equal limbs for any sharding and any number of threads") {
  const DType type = GENERATE(DType::f32, DType::bf16);
  constexpr int64_t n = 64 * 333;
  const test::Visible<float> x = values(n);
  const test::Visible<uint16_t> half = narrow(x, DType::bf16);
  const auto* data = type == DType::f32 ? reinterpret_cast<const std::byte*>(x.data())
                                        : reinterpret_cast<const std::byte*>(half.data());
  ExactSum reference;
  add(reference, n, data, type);
  double squares = 0;
  for (float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  CHECK(reference.value() == Approx(squares).epsilon(type == DType::f32 ? 1e-12 : 1e-2));
  for (const int threads : thread_counts()) {
    core::set_threads(threads);
    for (int64_t shard : {int64_t{64}, int64_t{64 * 100}, n}) {
      ExactSum total;
      for (int64_t begin = 0; begin < n; begin += shard) {
        ExactSum part;
        add(part, std::min(shard, n - begin), data + static_cast<size_t>(begin) * core::dtype_size(type), type);
        total.add(part);
      }
      CHECK(equal(total, reference));
    }
  }
  core::set_threads(1);
}

TEST_CASE("tiny and huge elements mix exactly, and what no sum can hold is flagged") {
  test::Visible<float> x(128, 0.0f);
  x[0] = 1e13f, x[1] = 1e-20f, x[64] = 1e-27f;
  ExactSum sum;
  add(sum, 128, x.data(), DType::f32);
  CHECK(sum.non_finite == 0);
  CHECK(sum.value() == Approx(1e26).epsilon(1e-6));
  sum.add(-static_cast<double>(x[0]) * static_cast<double>(x[0]));
  CHECK(sum.value() > 0);  // 1e-27 squared is still there; 1e-20 squared was below the rounding of its chunk
  x[3] = 1e-30f;
  x[65] = 1e30f;
  ExactSum large;
  add(large, 128, x.data(), DType::f32);
  CHECK(large.non_finite == 1);
  x[65] = std::numeric_limits<float>::quiet_NaN();
  x[2] = -std::numeric_limits<float>::infinity();
  ExactSum broken;
  add(broken, 128, x.data(), DType::f32);
  CHECK(broken.non_finite == 2);
  CHECK_THROWS_AS(add_squares(broken, 65, x.data(), DType::f32), core::Error);
  CHECK_THROWS_AS(add_squares(broken, 64, x.data(), DType::i32), core::Error);
}

}  // namespace
}  // namespace zrt::optimizer::exact_sum_test
