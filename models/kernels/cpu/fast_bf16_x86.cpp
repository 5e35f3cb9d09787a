#include "models/kernels/cpu/gemm_impl.h"

namespace zrt::models::cpu {

// AMX is the fast bf16 unit of the processors that have it; there AVX512-BF16 runs a dot product every other cycle, at
// half the FLOPs of two fp32 units (measured with AMX hidden by a hypervisor: 112 against 220 GFLOP/s per core). These
// processors are the ones with AVX512-FP16. Older and AMD processors have full-rate AVX512-BF16. Without either, oneDNN
// emulates bf16 slowly.
bool fast_bf16() {
  static const bool fast = [] {
    if (dnnl_has_amx()) return true;
    __builtin_cpu_init();
    return dnnl_has_bf16() && !__builtin_cpu_supports("avx512fp16");
  }();
  return fast;
}

}  // namespace zrt::models::cpu
