#include "core/dtype.h"

#include <cmath>
#include <limits>

#include "catch.h"

namespace zrt::core::dtype_test {
namespace {

// The value of a 16-bit float with `exponent_bits`, from its definition.
double decode(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
  double value = 0;
  if (exponent == (1 << exponent_bits) - 1) {
    value = mantissa ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  }
  return bits & 0x8000 ? -value : value;
}

template <class T>
void check_all_patterns(int exponent_bits, T (*narrow)(float)) {
  int wrong_value = 0, wrong_round_trip = 0, loud_nan = 0;
  for (uint32_t i = 0; i < 65536; ++i) {
    const T x{static_cast<uint16_t>(i)};
    const double expected = decode(x.bits, exponent_bits);
    const float value = to_float(x);
    const uint16_t back = narrow(value).bits;
    if (std::isnan(expected)) {
      wrong_value += !std::isnan(value);
      loud_nan += !std::isnan(to_float(T{back})) || std::signbit(to_float(T{back})) != std::signbit(value);
    } else {
      wrong_value += static_cast<double>(value) != expected || std::signbit(value) != std::signbit(expected);
      wrong_round_trip += back != x.bits;
    }
  }
  CHECK(wrong_value == 0);
  CHECK(wrong_round_trip == 0);
  CHECK(loud_nan == 0);
}

// Checks between each two neighbours that the midpoint goes to the even one, and a hair to either side to the nearer
// one.
template <class T>
void check_rounding(uint16_t infinity, int exponent_bits, T (*narrow)(float)) {
  int wrong = 0;
  for (uint16_t low = 0; low < infinity; ++low) {
    const uint16_t high = static_cast<uint16_t>(low + 1);
    const double a = decode(low, exponent_bits);
    // Infinity takes the place of the next power of two.
    const double previous = low > 0 ? decode(static_cast<uint16_t>(low - 1), exponent_bits) : -a;
    const double b = high == infinity ? a + (a - previous) : decode(high, exponent_bits);
    const float middle = static_cast<float>((a + b) / 2);
    if (static_cast<double>(middle) != (a + b) / 2) continue;  // below the resolution of fp32
    const uint16_t even = low % 2 == 0 ? low : high;
    const float below = std::nextafter(middle, 0.0f), above = std::nextafter(middle, INFINITY);
    for (const uint16_t sign : {uint16_t{0}, uint16_t{0x8000}}) {
      const float s = sign ? -1.0f : 1.0f;
      wrong += narrow(s * middle).bits != (sign | even);
      wrong += below > static_cast<float>(a) && narrow(s * below).bits != (sign | low);
      wrong += (std::isinf(above) || above < static_cast<float>(b)) && narrow(s * above).bits != (sign | high);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("all bf16 patterns convert to fp32 by definition and back unchanged") {
  check_all_patterns<bf16>(8, to_bf16);
}
TEST_CASE("all fp16 patterns convert to fp32 by definition and back unchanged") {
  check_all_patterns<f16>(5, to_f16);
}
TEST_CASE("bf16 rounds to nearest, ties to even, overflow to infinity") {
  check_rounding<bf16>(0x7f80, 8, to_bf16);
  CHECK(to_bf16(std::numeric_limits<float>::max()).bits == 0x7f80);
  CHECK(to_bf16(-INFINITY).bits == 0xff80);
}
TEST_CASE("fp16 rounds to nearest, ties to even, overflow to infinity, underflow to zero") {
  check_rounding<f16>(0x7c00, 5, to_f16);
  CHECK(to_f16(65504.0f).bits == 0x7bff);
  CHECK(to_f16(65519.996f).bits == 0x7bff);
  CHECK(to_f16(65520.0f).bits == 0x7c00);
  CHECK(to_f16(1e30f).bits == 0x7c00);
  CHECK(to_f16(0x1p-25f).bits == 0);
  CHECK(to_f16(-0x1p-60f).bits == 0x8000);
  CHECK(to_f16(std::numeric_limits<float>::denorm_min()).bits == 0);
}
TEST_CASE("a NaN whose payload lies in the low bits stays a NaN when rounded") {
  const float nan = std::bit_cast<float>(0x7f800001u);
  CHECK(std::isnan(to_float(to_bf16(nan))));
  CHECK(std::isnan(to_float(to_f16(nan))));
}
// Its value from the definition; NaN for all ones.
double e4m3_value(int bits) {
  const int exponent = (bits & 0x7f) >> 3, mantissa = bits & 7;
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  const double value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return bits & 0x80 ? -value : value;
}

TEST_CASE("all e4m3 patterns convert to fp32 by definition and back unchanged") {
  for (int i = 0; i < 256; ++i) {
    INFO(i);
    const e4m3 x{static_cast<uint8_t>(i)};
    const float value = to_float(x);
    CHECK(to_e4m3(value).bits == i);
    CHECK(std::signbit(value) == (i >= 128));
    if (std::isnan(e4m3_value(i))) {
      CHECK(std::isnan(value));
    } else {
      CHECK(static_cast<double>(value) == e4m3_value(i));
    }
  }
}
TEST_CASE("e4m3 rounds to nearest, ties to even, and stays finite where fp32 is") {
  int wrong = 0;
  for (int low = 0; low < 0x7e; ++low) {
    const double a = e4m3_value(low), b = e4m3_value(low + 1);
    const float middle = static_cast<float>((a + b) / 2);
    REQUIRE(static_cast<double>(middle) == (a + b) / 2);
    for (const int sign : {0, 0x80}) {
      const float s = sign ? -1.0f : 1.0f;
      wrong += to_e4m3(s * middle).bits != (sign | (low % 2 == 0 ? low : low + 1));
      wrong += to_e4m3(s * std::nextafter(middle, 0.0f)).bits != (sign | low);
      wrong += to_e4m3(s * std::nextafter(middle, INFINITY)).bits != (sign | (low + 1));
    }
  }
  CHECK(wrong == 0);
  for (const float large : {448.0f, 463.0f, 464.0f, 465.0f, 480.0f, 1e5f, std::numeric_limits<float>::max()}) {
    CHECK(to_e4m3(large).bits == 0x7e);
    CHECK(to_e4m3(-large).bits == 0xfe);
  }
  CHECK(to_e4m3(0x1p-11f).bits == 0);
  CHECK(to_e4m3(-std::numeric_limits<float>::denorm_min()).bits == 0x80);
}
TEST_CASE("infinities and NaN become the NaN of e4m3") {
  CHECK(to_e4m3(INFINITY).bits == 0x7f);
  CHECK(to_e4m3(-INFINITY).bits == 0xff);
  CHECK((to_e4m3(std::bit_cast<float>(0x7f800001u)).bits & 0x7f) == 0x7f);
}
TEST_CASE("types know their size and name") {
  CHECK(dtype_size(DType::f32) == 4);
  CHECK(dtype_size(DType::bf16) == 2);
  CHECK(dtype_size(DType::f16) == 2);
  CHECK(dtype_size(DType::i32) == 4);
  CHECK(dtype_size(DType::u8) == 1);
  CHECK(dtype_size(DType::e4m3) == 1);
  CHECK(dtype_name(DType::bf16) == "bf16");
  CHECK(dtype_name(DType::e4m3) == "e4m3");
  CHECK(dtype_name(DType::f16) == "fp16");
}

}  // namespace
}  // namespace zrt::core::dtype_test
