#include "models/kernels/rounding.h"

#include <limits>

#include "catch.h"
#include "tests/models/shifted_buffer.h"

namespace zrt::rounding_test {

using zrt::core::bf16;
using zrt::core::DType;
using zrt::core::RngKey;
using namespace zrt::models;
using namespace zrt::test;

namespace {

const RngKey key{77, 5, 9};

std::vector<uint16_t> rounded(KernelBuffer& x, uint64_t first, int64_t shift = 0) {
  KernelBuffer y(DType::bf16, x.size() + shift);
  auto* to = static_cast<bf16*>(y.data()) + shift;
  round_stochastic(x.floats(), to, key, first, x.size());
  settle();
  std::vector<uint16_t> bits;
  for (int64_t i = 0; i < x.size(); ++i) bits.push_back(to[i].bits);
  return bits;
}

}  // namespace

TEST_CASE("stochastic rounding adds the low bits of the element's Philox word and cuts") {
  KernelBuffer x = KernelBuffer::random(DType::f32, 20003, 3);
  const uint64_t first = GENERATE(0ull, 1ull, 2ull, 3ull, (1ull << 35) + 5);
  const auto bits = rounded(x, first);
  CHECK(rounded(x, first, 1) == bits);
  int64_t wrong = 0, neighbours = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    const uint32_t u = std::bit_cast<uint32_t>(x.floats()[i]), cut = u >> 16;
    const uint32_t word = zrt::core::random_word(key, first + static_cast<uint64_t>(i)) & 0xffffu;
    wrong += bits[static_cast<size_t>(i)] != ((u & 0xffffu) + word > 0xffffu ? cut + 1 : cut);
    neighbours += bits[static_cast<size_t>(i)] == cut;
  }
  CHECK(wrong == 0);
  CHECK(std::abs(static_cast<double>(neighbours) / 20003 - 0.5) < 0.02);
}

TEST_CASE("the mean of stochastic rounding is the number itself") {
  const int64_t n = 200000;
  const float value = GENERATE(1.0f + 0.3f / 128, -5.0f - 0.9f / 32, 3e-39f, 1e30f);
  KernelBuffer x(DType::f32, n);
  for (int64_t i = 0; i < n; ++i) x.set(i, value);
  double mean = 0, squares = 0;
  for (const uint16_t bits : rounded(x, 0)) {
    const double d = static_cast<double>(zrt::core::to_float(bf16{bits})) - static_cast<double>(value);
    mean += d / static_cast<double>(n), squares += d * d / static_cast<double>(n);
  }
  CHECK(squares > 0);
  CHECK(std::abs(mean) < 5 * std::sqrt(squares / static_cast<double>(n)));
}

TEST_CASE("stochastic rounding leaves what bf16 holds, infinities and NaN") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{0, -0.0f, 1, -1.5f, 0x1p-133f, 3.3895313892515355e38f, infinity, -infinity};
  KernelBuffer x(DType::f32, 1000);
  for (int64_t i = 0; i < 1000; ++i) x.set(i, values[static_cast<size_t>(i) % values.size()]);
  const auto bits = rounded(x, 0);
  int64_t wrong = 0;
  for (size_t i = 0; i < bits.size(); ++i) wrong += bits[i] != std::bit_cast<uint32_t>(values[i % values.size()]) >> 16;
  CHECK(wrong == 0);
  for (const uint32_t nan : {0x7fc00000u, 0x7f800001u, 0xffffffffu}) {
    for (int64_t i = 0; i < 1000; ++i) x.set(i, std::bit_cast<float>(nan));
    for (const uint16_t out : rounded(x, 0)) {
      REQUIRE(out == zrt::core::to_bf16(std::bit_cast<float>(nan)).bits);
    }
  }
}

TEST_CASE("casts round to nearest from every type to every other") {
  const DType from = GENERATE(DType::f32, DType::bf16, DType::f16), to = GENERATE(DType::f32, DType::bf16, DType::f16);
  const int64_t shift = GENERATE(0, 1, 3), n = 20005;
  KernelBuffer values = KernelBuffer::random(from, n, 100);
  const float infinity = std::numeric_limits<float>::infinity();
  int64_t special = 0;
  for (const float v : {0.0f, -0.0f, infinity, -infinity, 65504.0f, 65519.0f, 65520.0f, 1e-7f, 3e-8f, 6e-5f, 1e-41f}) {
    values.set(special++, v);
  }
  Shifted x(from, values, shift), y(to, KernelBuffer(to, n), shift);
  KernelBuffer expected(to, n);
  for (int64_t i = 0; i < n; ++i) expected.set(i, static_cast<float>(values.at(i)));
  cast(from, x.data(), to, y.data(), n);
  CHECK(y.values() == expected);
  values.set(n - 1, std::numeric_limits<float>::quiet_NaN());
  Shifted with_nan(from, values, shift);
  cast(from, with_nan.data(), to, y.data(), n);
  CHECK(std::isnan(y.values().at(n - 1)));
  CHECK(y.values().at(n - 2) == expected.at(n - 2));
}

}  // namespace zrt::rounding_test
