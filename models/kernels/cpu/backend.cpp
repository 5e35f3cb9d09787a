#include "models/kernels/backend.h"

#include "models/kernels/cpu/gemm_impl.h"

namespace zrt::models::cpu {

#define ZRT_ADDRESS(name) &cpu::name,

const Backend backend{ZRT_KERNELS(ZRT_ADDRESS)[](const GemmSpec& spec){return tiles_pay(spec) ? make_tiled_gemm(spec)
                                                                                              : make_dnnl_gemm(spec);
}  // namespace zrt::models::cpu
, [] { return "oneDNN " + dnnl_version(); }
}
;

}  // namespace zrt::models::cpu
