#include <array>
#include <dnnl.hpp>

#include "catch.h"
#include "core/isa.h"
#include "models/kernels/gemm.h"

#if defined(__x86_64__)
TEST_CASE("oneDNN is held to the level of instruction sets of the process", "[cpu]") {
  using dnnl::cpu_isa;
  zrt::models::find_gemm({64, 64, 64, false, false, 64, 64, 64});
  const std::array<cpu_isa, 4> levels{cpu_isa::avx2, cpu_isa::avx512_core, cpu_isa::avx512_core_bf16,
                                      cpu_isa::avx512_core_amx};
  const auto level = static_cast<size_t>(zrt::core::best_isa());
  const cpu_isa used = dnnl::get_effective_cpu_isa();
  CAPTURE(zrt::core::isa_name(zrt::core::best_isa()), static_cast<int>(used));
  CHECK(used == levels[level]);
}
#endif

namespace zrt::dnnl_level_test {}  // namespace zrt::dnnl_level_test
