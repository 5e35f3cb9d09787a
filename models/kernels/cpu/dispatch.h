// Finds the type of a kernel for a DType.
#pragma once
#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "core/error.h"
#include "models/kernels/cpu/vector_kernels.h"
#include "models/kernels/kernels.h"

namespace zrt::models::cpu {

// Calls body(T{}) for the element type; throws core::Error for types the CPU does not compute in.
template <class Body>
void with_type(DType type, Body&& body) {
  switch (type) {
    case DType::f32:
      return body(float{});
    case DType::bf16:
      return body(core::bf16{});
    case DType::f16:
      return body(core::f16{});
    default:
      throw core::Error(fmt::format("The CPU kernels do not compute in {}. Legal types are fp32, bf16 and fp16.",
                                    core::dtype_name(type)));
  }
}

inline DropoutKey dropout_key(const Dropout& dropout) {
  return {dropout.key.seed, dropout.key.step, dropout.key.tensor, dropout.probability};
}

// Writes n fp32 sums to elements `begin` … of a gradient, if anybody wants it.
inline void write_gradient(const GradTarget& target, int64_t begin, const float* sums, int64_t n) {
  if (target.data == nullptr) return;
  with_type(target.type, [&](auto zero) {
    using T = decltype(zero);
    typed_kernels<T>().write(sums, static_cast<T*>(target.data) + begin, target.accumulate, n);
  });
}

}  // namespace zrt::models::cpu
