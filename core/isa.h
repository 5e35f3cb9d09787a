// Instruction sets that kernel files are compiled for (see cmake/zrt_isa.cmake). The results of a kernel are the same
// bits in each of them; only the speed differs.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace zrt::core {

enum class Isa : uint8_t { baseline, v3, v4 };
inline constexpr std::array<std::string_view, 3> isa_names{"baseline", "x86-64-v3", "x86-64-v4"};

Isa best_isa();  // the widest set that this processor and system run

}  // namespace zrt::core
