// Levels of instruction sets in tests.
#pragma once
#include <vector>

#include "core/isa.h"

namespace zrt::test {

// One level for each build of the kernel tables (cmake/zrt_isa.cmake) that this process may run.
inline std::vector<core::Isa> compiled_isas() {
  std::vector<core::Isa> levels{core::Isa::avx2};
  if (core::best_isa() >= core::Isa::avx512) levels.push_back(core::Isa::avx512);
  return levels;
}

}  // namespace zrt::test
