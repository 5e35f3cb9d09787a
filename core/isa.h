// The level of instruction sets that a process computes at: the highest that the processor and the system have, or less
// where the environment variable ZRT_MAX_ISA says so. Kernel files are compiled for two of them (cmake/zrt_isa.cmake)
// and give the same bits in both; oneDNN's matrix products differ in bits and speed between all.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace zrt::core {

enum class Isa : uint8_t { avx2, avx512, avx512_bf16, amx };
#if defined(__x86_64__)
inline constexpr std::array<std::string_view, 4> isa_names{"avx2", "avx512", "avx512_bf16", "amx"};
#else
inline constexpr std::array<std::string_view, 1> isa_names{"generic"};  // other processors have the lowest level only
#endif
inline std::string_view isa_name(Isa isa) {
  return isa_names[static_cast<size_t>(isa)];
}

// Throws core::Error, naming the processor and what it lacks, where even the lowest level is missing.
Isa detected_isa();
// Returns the level that ZRT_MAX_ISA allows; nothing when it is not set. Throws core::ConfigError on a name that is no
// level.
std::optional<Isa> isa_cap();
// The lower of the two, read once. Throws as they do. `zrt` asks before anything else.
Isa best_isa();

// The rules behind them. Features are named as in isa_needs().
struct Processor {
  std::string name;
  std::set<std::string_view> features;  // which the processor has and the system allows
};
std::string_view isa_needs(Isa isa);  // the features a level needs beside those of the levels below
Isa isa_of(const Processor& processor);
Isa parse_isa(std::string_view name);

// Returns the kernel table for a level; the tables are compiled per instruction set.
template <class Table>
const Table& choose_isa(Isa isa, const Table& v3, const Table& v4) {
  return isa == Isa::avx2 ? v3 : v4;
}

}  // namespace zrt::core
