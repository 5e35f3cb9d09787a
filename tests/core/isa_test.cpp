#include "core/isa.h"

#include <algorithm>
#include <cstdlib>

#include "catch.h"
#include "core/error.h"

namespace zrt::core::isa_test {
namespace {

using Catch::Matchers::Contains;

// A processor with the needs of the levels up to `isa`.
Processor with_features_of(Isa isa) {
  Processor processor{"A Made-up Processor", {}};
  for (int level = 0; level <= static_cast<int>(isa); ++level) {
    std::string_view rest = isa_needs(static_cast<Isa>(level));
    while (!rest.empty()) {
      const size_t length = std::min(rest.find(' '), rest.size());
      processor.features.insert(rest.substr(0, length));
      rest.remove_prefix(std::min(length + 1, rest.size()));
    }
  }
  return processor;
}

#if defined(__x86_64__)
TEST_CASE("a processor has the highest level of which it has every feature, and those of all levels below") {
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    CHECK(isa_of(with_features_of(isa)) == isa);
    if (isa == Isa::avx2) continue;
    const Processor full = with_features_of(isa), less = with_features_of(static_cast<Isa>(static_cast<int>(isa) - 1));
    for (const std::string_view feature : full.features) {
      if (less.features.contains(feature)) continue;
      Processor lacking = full;
      lacking.features.erase(feature);
      CAPTURE(feature);
      CHECK(isa_of(lacking) < isa);
    }
  }
  Processor gap = with_features_of(Isa::amx);
  gap.features.erase("avx512_bf16");
  CHECK(isa_of(gap) == Isa::avx512);
}

TEST_CASE("a processor that lacks a feature of the lowest level is refused by its name and the feature's") {
  const Processor full = with_features_of(Isa::avx2);
  for (const std::string_view feature : full.features) {
    Processor lacking = full;
    lacking.features.erase(feature);
    CHECK_THROWS_WITH(isa_of(lacking), Contains("A Made-up Processor") && Contains("lacks " + std::string(feature)));
  }
  CHECK_THROWS_WITH(isa_of({"An Old One", {"movbe", "lzcnt"}}), Contains("lacks avx2, fma, f16c, bmi1, bmi2."));
}
#endif

TEST_CASE("ZRT_MAX_ISA is a level's name, and nothing else is") {
  for (size_t i = 0; i < isa_names.size(); ++i) CHECK(parse_isa(isa_names[i]) == static_cast<Isa>(i));
  for (const char* wrong : {"avx", "AVX2", "avx512 ", "none"}) {
    CHECK_THROWS_AS(parse_isa(wrong), ConfigError);
    CHECK_THROWS_WITH(parse_isa(wrong),
                      Contains("'" + std::string(wrong) + "'") && Contains(std::string(isa_names[0])));
  }
}

TEST_CASE("a process computes at what the processor has and ZRT_MAX_ISA allows") {
  const char* text = std::getenv("ZRT_MAX_ISA");
  CHECK(isa_cap().has_value() == (text != nullptr));
  CHECK(best_isa() == std::min(detected_isa(), text ? parse_isa(text) : detected_isa()));
}

}  // namespace
}  // namespace zrt::core::isa_test
