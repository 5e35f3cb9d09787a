#include "comm/reduce.h"

#include <cmath>

#include "catch.h"
#include "isa_levels.h"
#include "values.h"

namespace zrt::comm::reduce_test {
namespace {

TEST_CASE("every 16-bit pattern passes through a sum of one source as core converts it, in every instruction set") {
  const DType type = GENERATE(DType::bf16, DType::f16);
  std::vector<uint16_t> bits(65536), back(65536);
  std::vector<float> wide(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  const void* source = bits.data();
  for (core::Isa isa : test::compiled_isas()) {
    reduce({&source, 1}, type, wide.data(), DType::f32, false, 65536, isa);
    reduce({&source, 1}, type, back.data(), type, false, 65536, isa);
    int wrong = 0;
    for (int i = 0; i < 65536; ++i) {
      const size_t k = static_cast<size_t>(i);
      const float expected = load(reinterpret_cast<const std::byte*>(bits.data()), i, type);
      const uint16_t rounded = round_half(expected, type);
      wrong += std::memcmp(&expected, &wide[k], 4) != 0 || rounded != back[k];
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a sum is rounded once, like core rounds, in every instruction set") {
  const DType type = GENERATE(DType::bf16, DType::f16);
  // Pairs whose fp32 sum lands on ties, between subnormals, at the overflow limit and on NaN.
  std::vector<Bytes> sources;
  constexpr int64_t count = 40000;
  for (int rank = 0; rank < 2; ++rank) {
    sources.push_back(Bytes(count * 2));
    const core::RngKey key{.seed = 77, .step = 0, .tensor = static_cast<uint32_t>(rank)};
    for (int64_t i = 0; i < count; ++i) {
      const uint16_t pattern = static_cast<uint16_t>(core::random_word(key, static_cast<uint64_t>(i)));
      std::memcpy(sources.back().data() + i * 2, &pattern, 2);
    }
  }
  const std::vector<const void*> pointers{sources[0].data(), sources[1].data()};
  for (core::Isa isa : test::compiled_isas()) {
    Bytes result(count * 2);
    reduce(pointers, type, result.data(), type, false, count, isa);
    int wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
      const uint16_t expected = round_half(ordered_sum(sources, i, type), type);
      uint16_t got;
      std::memcpy(&got, result.data() + i * 2, 2);
      const bool both_nan = std::isnan(load(result.data(), i, type)) && std::isnan(ordered_sum(sources, i, type));
      wrong += got != expected && !both_nan;  // which NaN comes out of NaN + NaN is not fixed by IEEE
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("an accumulating sum adds the finished fp32 sum to the target") {
  std::vector<Bytes> sources;
  std::vector<const void*> pointers;
  constexpr int64_t count = 5001;
  for (int rank = 0; rank < 3; ++rank) sources.push_back(make_values(count, DType::bf16, rank, 5));
  for (const Bytes& source : sources) pointers.push_back(source.data());
  for (core::Isa isa : test::compiled_isas()) {
    std::vector<float> target(count, 0.25f);
    reduce(pointers, DType::bf16, target.data(), DType::f32, true, count, isa);
    int wrong = 0;
    for (int64_t i = 0; i < count; ++i) {
      wrong += target[static_cast<size_t>(i)] != 0.25f + ordered_sum(sources, i, DType::bf16);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a sum that goes on from that of earlier sources has the bits of one sum") {
  constexpr int64_t count = 2500;
  for (DType type : float_types()) {
    std::vector<Bytes> values;
    std::vector<const void*> sources;
    for (int rank = 0; rank < 5; ++rank) values.push_back(make_values(count, type, rank, 6));
    for (const Bytes& value : values) sources.push_back(value.data());
    for (core::Isa isa : test::compiled_isas()) {
      std::vector<float> before(count), whole(count, 0.5f), parts(count, 0.5f);
      Bytes rounded(count * core::dtype_size(type)), in_parts(rounded.size());
      const std::span<const void* const> all(sources);
      reduce(all.first(2), type, before.data(), DType::f32, false, count, isa);
      reduce(all, type, whole.data(), DType::f32, true, count, isa);
      reduce(all.subspan(2), type, parts.data(), DType::f32, true, count, isa, before.data());
      CHECK(whole == parts);
      reduce(all, type, rounded.data(), type, false, count, isa);
      reduce(all.subspan(2), type, in_parts.data(), type, false, count, isa, before.data());
      CHECK((rounded == in_parts));
    }
  }
}

TEST_CASE("a result large enough to bypass the cache is the same, at any alignment, and nothing around it changes") {
  constexpr int64_t count = (1 << 18) + 77;
  std::vector<Bytes> sources{make_values(count, DType::f32, 0, 8), make_values(count, DType::f32, 1, 8)};
  const std::vector<const void*> pointers{sources[0].data(), sources[1].data()};
  for (size_t shift : {0u, 1u, 15u}) {
    std::vector<float> target(static_cast<size_t>(count) + 32, -7.0f);
    reduce(pointers, DType::f32, target.data() + shift, DType::f32, false, count);
    int wrong = 0;
    for (size_t i = 0; i < target.size(); ++i) {
      const bool inside = i >= shift && i < shift + static_cast<size_t>(count);
      wrong += target[i] != (inside ? ordered_sum(sources, static_cast<int64_t>(i - shift), DType::f32) : -7.0f);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("minus zero survives a sum") {
  const float zero = -0.0f;
  const std::vector<const void*> pointers{&zero, &zero};
  float result = 1;
  reduce(pointers, DType::f32, &result, DType::f32, false, 1);
  CHECK(std::signbit(result));
}

}  // namespace
}  // namespace zrt::comm::reduce_test
