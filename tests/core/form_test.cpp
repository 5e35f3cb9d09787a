#include "core/form.h"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "catch.h"
#include "core/kernel_form.h"

namespace zrt::core::form_test {
namespace {

// Returns what a code stands for, relative to the scale: eighths of powers of two, 1 at `top`.
double meaning(uint32_t k, uint32_t top) {
  if (k == 0) return 0;
  const int below = static_cast<int>(top - k);
  const int exponent = (below + 7) / 8;
  return std::ldexp(1 + (8 * exponent - below) / 8.0, -exponent);
}

float scale_of(uint32_t significand, int exponent) {
  return std::ldexp(std::bit_cast<float>(0x3f800000u | significand), exponent);
}

std::vector<std::byte> written(Form form, const std::vector<float>& values) {
  std::vector<std::byte> bytes(form_bytes(form, static_cast<int64_t>(values.size())));
  write_form(form, values.data(), static_cast<int64_t>(values.size()), bytes.data());
  return bytes;
}

std::vector<float> read(Form form, const std::vector<std::byte>& bytes, size_t n) {
  std::vector<float> values(n);
  read_form(form, bytes.data(), 0, static_cast<int64_t>(n), values.data());
  return values;
}

TEST_CASE("a code means eighths of powers of two below the scale") {
  for (uint32_t k = 0; k < 256; ++k) {
    CHECK(static_cast<double>(read_unsigned(k, 3.0f)) == 3 * meaning(k, 255));
    const double sign = k < 128 ? 1 : -1;
    CHECK(static_cast<double>(read_signed(k, 3.0f)) == sign * 3 * meaning(k & 127, 127));
  }
  CHECK(meaning(255, 255) == 1);
  CHECK(meaning(1, 127) == 1.25 * 0x1p-16);
  CHECK(meaning(1, 255) == 1.25 * 0x1p-32);
}

// Products and quotients by a power of two are exact in the range of scales, so one exponent stands for all. The
// exhaustive form takes all 2^23 significands.
TEST_CASE("what is read is written back to the same code, for every code and scale, whatever the noise") {
  const uint32_t stride = std::getenv("ZRT_FULL_TESTS") ? 1 : 4999;
  uint64_t wrong = 0;
  for (uint32_t significand = 0; significand < 1u << 23; significand += stride) {
    const float scale = scale_of(significand, 0);
    for (const uint32_t noise : {0u, to_nearest, 0xffffu}) {
      if (stride == 1 && noise != to_nearest) continue;
      for (uint32_t k = 0; k < 256; ++k) {
        const float value = read_signed(k, scale), square = read_unsigned(k, scale);
        // The code of -0 is read as -0, but never written.
        if (noise == to_nearest || k == 0) {
          wrong += write_signed(value, scale, to_nearest) != (k == 128 ? 0 : k);
          wrong += write_unsigned(square, scale, to_nearest) != k;
        }
      }
      wrong += write_signed(scale, scale, noise) != signed_top;
      wrong += write_unsigned(scale, scale, noise) != unsigned_top;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("blocks of every scale are written, read and written again to the same bytes") {
  for (const Form form : {Form::signed8, Form::unsigned8}) {
    const uint32_t top = form == Form::signed8 ? signed_top : unsigned_top;
    for (int exponent = -149; exponent <= 127; ++exponent) {
      std::vector<float> values(2 * form_block);
      for (size_t i = 0; i < values.size(); ++i) {
        const float scale = scale_of(static_cast<uint32_t>(exponent + 200) * 12345u & 0x7fffffu, exponent);
        const bool negative = form == Form::signed8 && i % 2 == 1;
        values[i] =
            static_cast<float>(meaning(static_cast<uint32_t>(i) % (top + 1), top)) * (negative ? -scale : scale);
      }
      const auto bytes = written(form, values);
      const auto again = read(form, bytes, values.size());
      CAPTURE(form_name(form), exponent);
      CHECK(written(form, again) == bytes);
      if (exponent < -90) {
        CHECK(again == std::vector<float>(values.size(), 0.0f));
      } else {
        CHECK(again[top] == values[top]);
      }
    }
  }
}

TEST_CASE("a block keeps relative distances: 1/16 at most, over 15 and 31 powers of two") {
  for (const Form form : {Form::signed8, Form::unsigned8}) {
    const int range = form == Form::signed8 ? 15 : 31;
    std::vector<float> values(form_block);
    for (int64_t i = 0; i < form_block; ++i) {
      values[static_cast<size_t>(i)] = std::exp2(-static_cast<float>(i) * static_cast<float>(range) / form_block);
    }
    const auto kept = read(form, written(form, values), values.size());
    double worst = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(kept[i] / values[i]) - 1));
    }
    CHECK(worst <= 1.0 / 16);
    CHECK(worst > 1.0 / 20);
  }
}

TEST_CASE("of a second moment only 0 becomes 0; what is not finite becomes the largest number") {
  std::vector<float> values(form_block, 1e-30f);
  values[0] = 1, values[1] = 0, values[2] = 1e-45f;
  auto kept = read(Form::unsigned8, written(Form::unsigned8, values), values.size());
  CHECK(kept[0] == 1);
  CHECK(kept[1] == 0);
  for (size_t i = 2; i < kept.size(); ++i) CHECK(kept[i] == 1.25f * 0x1p-32f);
  kept = read(Form::signed8, written(Form::signed8, values), values.size());
  for (size_t i = 1; i < kept.size(); ++i) CHECK(kept[i] == 0);
  constexpr float most = std::numeric_limits<float>::max();
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    values[0] = odd, values[1] = most;
    for (const Form form : {Form::signed8, Form::unsigned8}) {
      kept = read(form, written(form, values), values.size());
      CHECK(kept[0] == most);
      CHECK(kept[1] == most);
    }
  }
}

TEST_CASE("a part of a run is read as in the whole, in every form") {
  std::vector<float> values(3 * form_block);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i * i % 1000 + 1) * (1 + static_cast<float>(i / 2048));
  for (const Form form : {Form::f32, Form::bf16, Form::signed8, Form::unsigned8}) {
    const auto bytes = written(form, values);
    CHECK(bytes.size() == form_bytes(form, 3 * form_block));
    const auto whole = read(form, bytes, values.size());
    for (const auto& [first, n] : {std::pair<int64_t, int64_t>{0, 1}, {2047, 2}, {1000, 4000}, {6143, 1}}) {
      std::vector<float> part(static_cast<size_t>(n));
      read_form(form, bytes.data(), first, n, part.data());
      CHECK(part == std::vector<float>(whole.begin() + first, whole.begin() + first + n));
    }
  }
  CHECK(form_bytes(Form::signed8, 4096) == 2 * 2052);
}

}  // namespace
}  // namespace zrt::core::form_test
