#include "optimizer/host_optimizer.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "optimizer/adam_kernels.h"

namespace zrt::optimizer {
namespace {

constexpr int64_t chunk = 64;  // elements; shards and thread pieces are multiples of it

size_t float_index(DType type, const char* what) {
  if (type != DType::f32 && type != DType::bf16 && type != DType::f16) {
    throw core::Error(
        fmt::format("adam_update: the {} is {}; legal are fp32, bf16 and fp16", what, core::dtype_name(type)));
  }
  return static_cast<size_t>(type);
}

AdamScalars make_scalars(const AdamParams& params, const AdamStep& step) {
  return {.beta1 = params.beta1,
          .one_minus_beta1 = 1.0f - params.beta1,
          .beta2 = params.beta2,
          .one_minus_beta2 = 1.0f - params.beta2,
          .grad_scale = step.grad_scale,
          .eps = params.eps,
          .decay = params.decoupled ? step.lr * params.weight_decay : params.weight_decay,
          .step_size = step.lr / step.bias_correction1,
          .root_bc2 = std::sqrt(step.bias_correction2)};
}

}  // namespace

const AdamKernels& adam_kernels(core::Isa isa) {
  static constexpr std::array<const AdamKernels*, 3> tables{&adam_kernels_baseline, &adam_kernels_v3, &adam_kernels_v4};
  return *tables[static_cast<size_t>(isa)];
}

void adam_update(const AdamParams& params, const AdamStep& step, int64_t n, float* master, float* moment1,
                 float* moment2, const void* grad, DType grad_type, void* weight, DType weight_type) {
  if (n < 0 || n % chunk != 0) {
    throw core::Error(fmt::format("adam_update: {} elements; legal are multiples of {}", n, chunk));
  }
  const size_t grad_index = float_index(grad_type, "gradient");
  const size_t weight_index = weight ? float_index(weight_type, "weight") : size_t{no_weight_copy};
  const AdamKernel kernel = adam_kernels(core::best_isa()).step[params.decoupled ? 1 : 0][grad_index][weight_index];
  const AdamScalars scalars = make_scalars(params, step);
  const size_t grad_size = core::dtype_size(grad_type), weight_size = core::dtype_size(weight_type);
  core::parallel_for(n, chunk, [&](int64_t begin, int64_t end) {
    const size_t offset = static_cast<size_t>(begin);
    kernel(scalars, end - begin, master + begin, moment1 + begin, moment2 + begin,
           static_cast<const std::byte*>(grad) + offset * grad_size,
           weight ? static_cast<std::byte*>(weight) + offset * weight_size : nullptr);
  });
}

}  // namespace zrt::optimizer
