// Makes template arguments of run-time facts about the arguments of a kernel.
#pragma once
#include <cstdint>
#include <type_traits>

#include "core/dtype.h"

namespace zrt::models::cuda {

[[noreturn]] void refuse_type(core::DType type);  // throws core::Error

// Calls body(T{}) for the element type; throws core::Error for types the GPU kernels do not compute in.
template <class Body>
void with_type(core::DType type, Body&& body) {
  switch (type) {
    case core::DType::f32:
      return body(float{});
    case core::DType::bf16:
      return body(core::bf16{});
    case core::DType::f16:
      return body(core::f16{});
    default:
      refuse_type(type);
  }
}

// Calls body(std::true_type{}) or body(std::false_type{}).
template <class Body>
void with_flag(bool flag, Body&& body) {
  if (flag) return body(std::true_type{});
  return body(std::false_type{});
}

// True where every pointer (null ones count) can be read 16 bytes at a time.
template <class... Pointer>
bool aligned16(const Pointer*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) | ...) & 15) == 0;
}

inline unsigned blocks_for(int64_t work, int64_t per_block) {
  return static_cast<unsigned>((work + per_block - 1) / per_block);
}

}  // namespace zrt::models::cuda
