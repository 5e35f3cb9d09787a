// The library that plays AMX (amx/shim.cpp) has been loaded, and zrt's products of bf16 are its: a test of bf16 that is
// run with it would otherwise show nothing.
#include <cstdlib>

#include "catch.h"
#include "core/isa.h"
#include "models/kernels/cpu/gemm_impl.h"
#include "models/kernels/gemm.h"
#include "tests/models/kernel_data.h"

namespace zrt::amx_order_test {

using namespace zrt::test;

TEST_CASE("products of bf16 add even and odd terms apart, tile by tile, as AMX does") {
  if (core::best_isa() < core::Isa::avx512_bf16) {  // a build for this level, run at a lower one
    WARN("skipped: ZRT_MAX_ISA is below the levels that multiply bf16");
    return;
  }
  CHECK(models::cpu::dnnl_has_amx());
  const auto product = [](const std::vector<float>& terms) {
    const auto K = static_cast<int64_t>(terms.size());
    KernelBuffer a(DType::bf16, 16 * K), b(DType::bf16, K), c(DType::f32, 16);
    for (int64_t k = 0; k < K; ++k) {
      b.set(k, 1);
      for (int64_t m = 0; m < 16; ++m) a.set(m * K + k, terms[static_cast<size_t>(k)]);
    }
    const models::Gemm& gemm =
        models::find_gemm({16, 1, K, false, false, K, 1, 1, DType::bf16, DType::bf16, DType::f32});
    KernelBuffer workspace(DType::f32, static_cast<int64_t>(gemm.workspace_bytes() / 4 + 64));
    gemm.run(a.data(), b.data(), c.data(), nullptr, workspace.data());
    return c.at(0);
  };
  constexpr float large = 0x1p24f;  // 1 is lost beside it
  CHECK(product({large, 1, -large, 0}) == 1);
  CHECK(product({large, 0, 1, -large}) == 0);
  std::vector<float> tiles(64, 0.0f);
  tiles[0] = large, tiles[32] = 1, tiles[34] = 1, tiles[36] = -large;
  CHECK(product(tiles) == 2);  // (1 + 1 - large), exactly, to the sum so far
  tiles[4] = 1;
  CHECK(product(tiles) == 2);
}

}  // namespace zrt::amx_order_test
