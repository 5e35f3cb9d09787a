// A function that every back end has. One line declares it, with the parameters' names:
//
//   ZRT_KERNEL(twice, void(DType type, const void* x, void* y, int64_t n));  // y = 2 · x
//
// declares cpu::twice and cuda::twice, which the back ends define, and `twice`, which calls the one of core::place(). A
// build without the CUDA Toolkit does without cuda::twice, and there a place on a GPU is refused.
#pragma once
#include <type_traits>
#include <utility>

#include "core/device.h"

namespace zrt::core {

[[noreturn]] void refuse_cuda();  // throws ConfigError: this build has nothing for GPUs

template <class Function>
struct Kernel;

template <class Result, class... Arguments>
struct Kernel<Result(Arguments...)> {
  Result (*cpu)(Arguments...);
  Result (*cuda)(Arguments...);  // null in builds without the CUDA Toolkit

  Result operator()(Arguments... arguments) const {
    const bool gpu = place().device == DeviceKind::cuda;
    if (gpu && cuda == nullptr) refuse_cuda();
    return (gpu ? cuda : cpu)(std::forward<Arguments>(arguments)...);
  }
};

}  // namespace zrt::core

// Nothing may refer to a cuda::name that is not there. From the inner namespace the name is no hindrance to others,
// such as Epilogue::gelu, which gcc else says shadow it.
#define ZRT_KERNEL(name, ...) \
  namespace cpu { \
  std::type_identity_t<__VA_ARGS__> name; \
  } \
  namespace cuda { \
  std::type_identity_t<__VA_ARGS__> name; \
  } \
  inline namespace kernels { \
  inline constexpr ::zrt::core::Kernel<__VA_ARGS__> name{cpu::name, ZRT_HAS_CUDA ? cuda::name : nullptr}; \
  } \
  static_assert(true)
