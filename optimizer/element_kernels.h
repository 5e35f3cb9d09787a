// The loops of the element-wise optimizers on the host: for each one table per instruction set, all with the same bits.
#pragma once
#include <cstdint>

#include "core/isa.h"
#include "optimizer/element_rules.h"

namespace zrt::optimizer {

template <class Scalars, int variants>
struct ElementKernels {
  // Steps over n elements; `weight`: a copy of the new weights; a state that the rule does not keep may be null.
  using Kernel = void (*)(const Scalars&, int64_t n, float* master, float* state0, float* state1, const void* grad,
                          void* weight);
  Kernel step[variants][3][4];  // [variant][gradient: fp32, bf16, fp16][weight copy: fp32, bf16, fp16, none]
};
inline constexpr int no_weight_copy = 3;

#define ZRT_DECLARE_TABLES(step, name, Name) \
  using Name##Kernels = ElementKernels<Name##Scalars, Name##Rule::variants>; \
  extern const Name##Kernels name##_kernels_v3, name##_kernels_v4; \
  const Name##Kernels& name##_kernels(core::Isa isa);
ZRT_ELEMENT_RULES(ZRT_DECLARE_TABLES)
#undef ZRT_DECLARE_TABLES

}  // namespace zrt::optimizer
