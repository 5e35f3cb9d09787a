// The loops of reduce() over one cache-sized piece; one table per instruction set. Arrays are indexed by DType: fp32,
// bf16, fp16.
#pragma once
#include <cstdint>

namespace zrt::comm {

struct ReduceKernels {
  void (*load[3])(float* sum, const void* source, int64_t count);  // sum = source
  void (*add[3])(float* sum, const void* source, int64_t count);   // sum += source
  void (*store[3])(void* target, const float* sum, int64_t count);
  void (*accumulate)(float* target, const float* sum, int64_t count);  // target += sum
};

extern const ReduceKernels reduce_kernels_v3, reduce_kernels_v4;

}  // namespace zrt::comm
