#include "models/common/norm.h"

#include "core/device.h"
#include "models/common/transformer_block.h"

namespace zrt::models {

Norm::Statistics Norm::statistics_in(BumpAllocator& layout, int64_t rows) const {
  const uint64_t bytes = static_cast<uint64_t>(rows) * 4;
  Statistics statistics;
  if (kind == NormKind::layer) statistics.mean = layout.take<float>(bytes);
  statistics.rstd = layout.take<float>(bytes);
  return statistics;
}

void Norm::add_params(std::vector<Param>& params, const std::string& name, bool summed) const {
  const Init init = kind == NormKind::rms_from_one ? Init::zeros : Init::ones;
  params.push_back({name + ".weight", {width}, init, 0, {}, summed});
  if (kind == NormKind::layer) params.push_back({name + ".bias", {width}, Init::zeros, 0, {}, summed});
}

void Norm::forward(const Call& call, size_t weight, int64_t rows, const void* x, void* y,
                   const Statistics& statistics) const {
  const void* bias = kind == NormKind::layer ? call.weights[weight + 1] : nullptr;
  norm(kind, call.shape.type, x, call.weights[weight], bias, y, statistics.mean, statistics.rstd, epsilon,
       {rows, width});
}

void Norm::forward_of_sum(const Call& call, size_t weight, int64_t rows, const void* a, const void* b,
                          const Dropout& dropout, uint64_t first, void* sum, void* y,
                          const Statistics& statistics) const {
  const void* bias = kind == NormKind::layer ? call.weights[weight + 1] : nullptr;
  residual_norm(kind, call.shape.type, a, b, dropout, first, sum, call.weights[weight], bias, y, statistics.mean,
                statistics.rstd, epsilon, rows, width);
}

void Norm::backward(const Call& call, size_t weight, int64_t rows, const void* x, const void* dy,
                    const Statistics& statistics, const void* add, void* dx, std::byte* scratch, float* held) const {
  const auto target = [&](int64_t i) {
    return held == nullptr ? grad_target(call, weight + static_cast<size_t>(i)) : GradTarget{held + i * width};
  };
  const GradTarget scale = target(0), bias = kind == NormKind::layer ? target(1) : GradTarget{};
  if (rows == 0) {  // of a rank that has none of the rows it shares
    for (const GradTarget& grad : {scale, bias}) {
      if (grad.data == nullptr || grad.accumulate) continue;
      core::fill_bytes(grad.data, 0, static_cast<size_t>(width) * core::dtype_size(grad.type));
    }
    return;
  }
  norm_backward(kind, call.shape.type, x, call.weights[weight], dy, statistics.mean, statistics.rstd, add, dx, scale,
                bias, {rows, width}, scratch);
}

void Norm::write_held(const Call& call, size_t weight, const float* held) const {
  write_gradient(held, width, grad_target(call, weight));
  if (kind == NormKind::layer) write_gradient(held + width, width, grad_target(call, weight + 1));
}

}  // namespace zrt::models
