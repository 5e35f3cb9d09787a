// The functions of kernels.h, matrix.h, rounding.h, sentence_order.h and attention.h exist once per back end, in a
// namespace of the same shape; the free functions call those of core::place().
#pragma once
#include "core/device.h"
#include "models/kernels/attention.h"
#include "models/kernels/gemm.h"
#include "models/kernels/kernels.h"
#include "models/kernels/matrix.h"
#include "models/kernels/rounding.h"
#include "models/kernels/sentence_order.h"

namespace zrt::models {

// clang-format off
#define ZRT_KERNELS(X)                                                                                    \
  X(norm) X(residual_norm) X(norm_backward) X(norm_backward_workspace)                                    \
  X(bias_gradient) X(bias_gradient_workspace) X(write_gradient) X(gelu) X(gelu_backward)                  \
  X(gelu_erf) X(gelu_erf_backward) X(swiglu) X(swiglu_backward)                                           \
  X(rotary) X(copy_columns) X(add_residual) X(apply_dropout)                                              \
  X(embed) X(embed_backward) X(embed_backward_workspace) X(token_types) X(add_rows)                       \
  X(cross_entropy) X(logit_parts) X(cross_entropy_part) X(sum_losses)                                     \
  X(split_add) X(cast) X(round_stochastic)                                                                \
  X(attention_forward_workspace) X(attention_backward_workspace) X(attention_forward)                     \
  X(attention_backward) X(attention_cache) X(attention_decode_workspace) X(attention_decode)              \
  X(tanh_of) X(tanh_backward) X(order_loss)                                                               \
  X(inverse_root_of_trace) X(scale_by) X(scale_and_shift)
// clang-format on

#define ZRT_DECLARE(name) decltype(models::name) name;
#define ZRT_POINTER(name) decltype(&models::name) name;

struct Backend {
  ZRT_KERNELS(ZRT_POINTER)
  std::unique_ptr<Gemm> (*make_gemm)(const GemmSpec& spec);  // throws core::Error when the library has no such product
  std::string (*libraries)();                                // with versions, for the kernel table
  bool products_fuse;                                        // see gemm.h
  int64_t product_stride;                                    // what product_stride() rounds to
};

namespace cpu {
ZRT_KERNELS(ZRT_DECLARE)
extern const Backend backend;
}  // namespace cpu
namespace cuda {
ZRT_KERNELS(ZRT_DECLARE)
extern const Backend backend;
}  // namespace cuda

const Backend& backend(core::DeviceKind device);

}  // namespace zrt::models
