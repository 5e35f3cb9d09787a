// Compiled once per instruction set: see cmake/zrt_isa.cmake.
#include "comm/reduce_kernels.h"

#include "core/kernel_convert.h"

#define ZRT_JOIN2(a, b) a##b
#define ZRT_JOIN(a, b) ZRT_JOIN2(a, b)

namespace zrt::comm {
namespace {

using core::bf16;
using core::f16;

template <class T>
void load(float* __restrict sum, const void* __restrict source, int64_t count) {
  const T* x = static_cast<const T*>(source);
  for (int64_t i = 0; i < count; ++i) sum[i] = core::widen(x[i]);
}

template <class T>
void add(float* __restrict sum, const void* __restrict source, int64_t count) {
  const T* x = static_cast<const T*>(source);
  for (int64_t i = 0; i < count; ++i) sum[i] = sum[i] + core::widen(x[i]);
}

template <class T>
void store(void* __restrict target, const float* __restrict sum, int64_t count) {
  T* y = static_cast<T*>(target);
  for (int64_t i = 0; i < count; ++i) core::narrow(sum[i], y[i]);
}

void accumulate(float* __restrict target, const float* __restrict sum, int64_t count) {
  for (int64_t i = 0; i < count; ++i) target[i] = target[i] + sum[i];
}

}  // namespace

extern const ReduceKernels ZRT_JOIN(reduce_kernels_, ZRT_ISA);
const ReduceKernels ZRT_JOIN(reduce_kernels_, ZRT_ISA) = {{load<float>, load<bf16>, load<f16>},
                                                          {add<float>, add<bf16>, add<f16>},
                                                          {store<float>, store<bf16>, store<f16>},
                                                          accumulate};

}  // namespace zrt::comm
