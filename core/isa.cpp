#include "core/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/error.h"

namespace zrt::core {
namespace {

// The lowest level is x86-64-v3 and the next x86-64-v4: all that the compiler may use in those builds is listed.
constexpr std::array<std::string_view, 4> level_needs{"avx2 fma f16c bmi1 bmi2 lzcnt movbe",
                                                      "avx512f avx512bw avx512cd avx512dq avx512vl",
                                                      "avx512_vnni avx512_bf16", "amx_tile amx_bf16 amx_int8"};

std::vector<std::string_view> missing_features(const Processor& processor, Isa isa) {
  std::vector<std::string_view> missing;
  std::string_view rest = isa_needs(isa);
  while (!rest.empty()) {
    const size_t length = rest.find(' ');
    const std::string_view feature = rest.substr(0, length);
    if (!processor.features.contains(feature)) missing.push_back(feature);
    rest.remove_prefix(length == std::string_view::npos ? rest.size() : length + 1);
  }
  return missing;
}

}  // namespace

std::string_view isa_needs(Isa isa) {
  return level_needs[static_cast<size_t>(isa)];
}

Isa isa_of(const Processor& processor) {
  const std::vector<std::string_view> missing = missing_features(processor, Isa::avx2);
  if (!missing.empty()) {
    throw Error(
        fmt::format("This processor ({}) lacks {}. zrt needs an x86-64 processor with {} (of Intel from Haswell, of "
                    "AMD from Excavator on) and a system, or virtual machine, that lets programs use them.",
                    processor.name, fmt::join(missing, ", "), isa_needs(Isa::avx2)));
  }
  Isa level = Isa::avx2;
  for (const Isa next : {Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    if (!missing_features(processor, next).empty()) break;
    level = next;
  }
  return level;
}

Isa parse_isa(std::string_view name) {
  for (size_t i = 0; i < isa_names.size(); ++i) {
    if (isa_names[i] == name) return static_cast<Isa>(i);
  }
  throw ConfigError(fmt::format("ZRT_MAX_ISA is '{}', which is no level of instruction sets; legal are {}", name,
                                fmt::join(isa_names, ", ")));
}

std::optional<Isa> isa_cap() {
  static const std::optional<Isa> cap = []() -> std::optional<Isa> {
    const char* text = std::getenv("ZRT_MAX_ISA");
    if (!text || !*text) return std::nullopt;
    return parse_isa(text);
  }();
  return cap;
}

Isa best_isa() {
  static const Isa best = std::min(detected_isa(), isa_cap().value_or(Isa::amx));
  return best;
}

}  // namespace zrt::core
