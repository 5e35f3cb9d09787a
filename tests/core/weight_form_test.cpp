// The forms of frozen weights against bitsandbytes' blocks, and what is read, written again.
#include "core/weight_form.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "catch.h"
#include "core/philox.h"
#include "tests/data_folder.h"

namespace zrt::core::weight_form_test {
namespace {

constexpr Form forms[] = {Form::nf4, Form::linear8};

std::vector<std::byte> packed(Form form, const std::vector<float>& values) {
  std::vector<std::byte> bytes(form_bytes(form, static_cast<int64_t>(values.size())));
  write_form(form, values.data(), static_cast<int64_t>(values.size()), bytes.data());
  return bytes;
}

std::vector<float> unpacked(Form form, const std::vector<std::byte>& bytes, int64_t first, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  read_form(form, bytes.data(), first, n, values.data());
  return values;
}

std::vector<float> normals(size_t n, uint32_t seed) {
  std::vector<float> values(n);
  random_normals({seed, 1, 2}, 0, static_cast<int64_t>(n), values.data());
  return values;
}

TEST_CASE("NF4 has the codes, scales and numbers of bitsandbytes") {
  std::ifstream in(zrt::test::data_folder() + "/nf4_goldens.json");
  const auto golden = nlohmann::json::parse(in);
  const auto numbers = golden["numbers"].get<std::vector<float>>(), back = golden["back"].get<std::vector<float>>();
  const auto codes = golden["codes"].get<std::vector<int>>();
  const auto scales = golden["scales"].get<std::vector<float>>();
  const std::vector<std::byte> bytes = packed(Form::nf4, numbers);
  REQUIRE(bytes.size() == numbers.size() / 64 * 36);
  for (size_t b = 0; b < scales.size(); ++b) {
    const auto* block = reinterpret_cast<const uint8_t*>(bytes.data() + 36 * b);
    CHECK(weight_scale(Form::nf4, block) == scales[b]);
    for (size_t i = 0; i < 32; ++i) CHECK(int{block[i]} == codes[32 * b + i]);
  }
  CHECK(unpacked(Form::nf4, bytes, 0, static_cast<int64_t>(numbers.size())) == back);
}

TEST_CASE("what is read of weights in few bits is written again to the same bytes") {
  for (const Form form : forms) {
    for (const float size : {1e-30f, 1e-3f, 1.0f, 3e38f / 8}) {
      std::vector<float> values = normals(64 * 50, 7);
      for (float& value : values) value *= size;
      const std::vector<std::byte> bytes = packed(form, values);
      const std::vector<float> back = unpacked(form, bytes, 0, 64 * 50);
      CHECK(packed(form, back) == bytes);
      CHECK(unpacked(form, bytes, 70, 100) == std::vector<float>(back.begin() + 70, back.begin() + 170));
    }
  }
}

TEST_CASE("a number is off by at most half the distance of two values, and the largest of a block is exact") {
  for (const Form form : forms) {
    const std::vector<float> values = normals(64 * 200, 3);
    const std::vector<float> back = unpacked(form, packed(form, values), 0, 64 * 200);
    // The two lowest values of NF4 lie the furthest apart.
    const double most = form == Form::nf4 ? (1 - 0.6961928) / 2 : 0.5 / 127;
    for (size_t b = 0; b < values.size(); b += 64) {
      double scale = 0, worst = 0;
      bool exact = false;
      for (size_t i = b; i < b + 64; ++i) scale = std::max(scale, std::abs(static_cast<double>(values[i])));
      for (size_t i = b; i < b + 64; ++i) {
        worst = std::max(worst, std::abs(static_cast<double>(values[i]) - static_cast<double>(back[i])));
        exact = exact || (std::abs(static_cast<double>(values[i])) == scale && values[i] == back[i]);
      }
      CHECK(worst <= most * scale * (1 + 1e-6));
      CHECK(exact);
    }
  }
}

TEST_CASE("a block with a number that is none, or infinite, shows it, and one of zeros is zero") {
  for (const Form form : forms) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> values = normals(192, 5);
      values[70] = bad;
      const std::vector<float> back = unpacked(form, packed(form, values), 0, 192);
      CHECK(std::isfinite(back[0]));
      CHECK_FALSE(std::all_of(back.begin() + 64, back.begin() + 128, [](float v) { return std::isfinite(v); }));
      CHECK(std::isfinite(back[128]));
    }
    const std::vector<float> zeros(64);
    CHECK(unpacked(form, packed(form, zeros), 0, 64) == zeros);
  }
}

}  // namespace
}  // namespace zrt::core::weight_form_test
