#include "runtime/bench/triad.h"

#define ZRT_JOIN2(a, b) a##b
#define ZRT_JOIN(a, b) ZRT_JOIN2(a, b)

namespace zrt::runtime {
namespace {

void triad(int64_t n, float* __restrict a, const float* __restrict b, const float* __restrict c, float s) {
  for (int64_t i = 0; i < n; ++i) a[i] = b[i] + s * c[i];
}

}  // namespace

extern const TriadKernel ZRT_JOIN(triad_, ZRT_ISA) = triad;

}  // namespace zrt::runtime
