#include <cpuid.h>

#include "models/kernels/cpu/gemm_impl.h"

namespace zrt::models::cpu {
namespace {

// __builtin_cpu_supports() does not know it in clang 14.
bool has_avx512_fp16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 23 & 1) != 0;
}

}  // namespace

// AMX is the fast bf16 unit of the processors that have it; there AVX512-BF16 runs a dot product every other cycle, at
// half the FLOPs of two fp32 units (measured with AMX hidden by a hypervisor: 112 against 220 GFLOP/s per core). These
// processors are the ones with AVX512-FP16. Older and AMD processors have full-rate AVX512-BF16. Without either, oneDNN
// emulates bf16 slowly.
bool fast_bf16() {
  static const bool fast = [] {
    if (dnnl_has_amx()) return true;
    return dnnl_has_bf16() && !has_avx512_fp16();
  }();
  return fast;
}

}  // namespace zrt::models::cpu
