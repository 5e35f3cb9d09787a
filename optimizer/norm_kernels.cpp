// Compiled once per instruction set: see cmake/zrt_isa.cmake.
#include "optimizer/norm_kernels.h"

#include "core/kernel_convert.h"

#define ZRT_JOIN2(a, b) a##b
#define ZRT_JOIN(a, b) ZRT_JOIN2(a, b)

namespace zrt::optimizer {
namespace {

// The 64 elements of a chunk in fp32; converted in a loop of their own, which vectorises better.
inline const float* wide_chunk(const float* x, float*) {
  return x;
}
template <class T>
const float* wide_chunk(const T* x, float* buffer) {
  for (int i = 0; i < 64; ++i) buffer[i] = core::widen(x[i]);
  return buffer;
}

// The square of an fp32 number is exact in fp64. Lane l sums elements l, l + 8, …, l + 56 of a chunk in this order,
// then the lanes are added as a tree.
template <class T>
void chunk_squares(const void* __restrict data, int64_t chunks, double* __restrict sums) {
  const T* __restrict x = static_cast<const T*>(data);
  for (int64_t c = 0; c < chunks; ++c, x += 64) {
    float buffer[64];
    const float* wide = wide_chunk(x, buffer);
    double lane[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int row = 0; row < 64; row += 8) {
      for (int l = 0; l < 8; ++l) {
        const double value = static_cast<double>(wide[row + l]);
        lane[l] = lane[l] + value * value;
      }
    }
    sums[c] = ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  }
}

}  // namespace

extern const NormKernels ZRT_JOIN(norm_kernels_, ZRT_ISA);
const NormKernels ZRT_JOIN(norm_kernels_,
                           ZRT_ISA) = {{chunk_squares<float>, chunk_squares<core::bf16>, chunk_squares<core::f16>}};

}  // namespace zrt::optimizer
