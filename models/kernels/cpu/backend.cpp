#include "models/kernels/backend.h"

#include "core/isa.h"
#include "models/kernels/cpu/gemm_impl.h"
#include "models/kernels/gemm_composed.h"

namespace zrt::models::cpu {
namespace {

std::unique_ptr<Gemm> make_plain_gemm(const GemmSpec& spec) {
  const core::Isa level = core::best_isa();
  return make_gemm_by(choose_way(spec, level, fast_bf16()), spec, level);
}

std::unique_ptr<Gemm> make_gemm(const GemmSpec& spec) {
  if (spec.fp8) return make_fp8_gemm(spec, make_gemm);
  const bool plain = !spec.add && spec.epilogue == Epilogue::none;
  return plain ? make_plain_gemm(spec) : compose_gemm(spec, make_plain_gemm);
}

std::string libraries() {
  return "oneDNN " + dnnl_version() + ", " + std::string(core::isa_name(core::best_isa()));
}

}  // namespace

const Backend backend{make_gemm, libraries, false, 1};

}  // namespace zrt::models::cpu
