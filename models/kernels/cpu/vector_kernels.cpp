// Compiled once per instruction set, with ZRT_ISA naming it: see cmake/zrt_isa.cmake.
#include "models/kernels/cpu/vector_kernels.h"

#include "core/kernel_convert.h"

namespace zrt::models::cpu::ZRT_ISA {
namespace {
#include "models/kernels/cpu/simd/math.h"
//
#include "models/kernels/cpu/simd/elementwise.h"
//
#include "models/kernels/cpu/simd/reductions.h"
//
#include "models/kernels/cpu/simd/softmax.h"

template <class T, bool centred>
constexpr NormKernels<T> norms = {norm<T, centred>, norm_dx<T, centred>, norm_dweights<T, centred>};

#define ZRT_TYPED(T) \
  { \
    norms<T, true>, norms<T, false>, column_sums<T>, gelu<T>, gelu_backward<T>, gelu_erf<T>, gelu_erf_backward<T>, \
        swiglu<T>, swiglu_backward<T>, geglu<T>, geglu_backward<T>, multiply_by<T>, soft_cap<T>, rotate<T>, add<T>, \
        add_then_mask<T>, multiply<T>, accumulate<T>, write<T>, softmax<T>, softmax_backward<T>, capped_softmax<T>, \
        capped_softmax_backward<T>, cross_entropy<T>, logit_part<T>, cross_entropy_part<T>, attend<T>, widen<T> \
  }
}  // namespace

#define ZRT_STRING2(x) #x
#define ZRT_STRING(x) ZRT_STRING2(x)
const VectorKernels kernels = {ZRT_STRING(ZRT_ISA),  ZRT_TYPED(float), ZRT_TYPED(core::bf16),
                               ZRT_TYPED(core::f16), dropout_mask,     split_add};

}  // namespace zrt::models::cpu::ZRT_ISA
