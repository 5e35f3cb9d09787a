#include "models/kernels/cpu/gemm_impl.h"

namespace zrt::models::cpu {

bool fast_bf16() {
  return dnnl_has_bf16();
}

}  // namespace zrt::models::cpu
