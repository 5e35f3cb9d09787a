#include "models/common/head_transform.h"

#include "core/device.h"
#include "models/common/transformer_block.h"

namespace zrt::models {

void HeadTransform::add_params(std::vector<Param>& params, const Names& names, bool summed) {
  const int64_t C = norm_.width;
  dense_weight_ = params.size();
  params.push_back({names.dense + ".weight", {C, C}, Init::normal, 0.02f, {}, summed});
  params.push_back({names.dense + ".bias", {C}, Init::zeros, 0, {}, summed});
  norm_weight_ = params.size();
  norm_.add_params(params, names.norm, summed);
}

HeadTransform::Saved HeadTransform::saved_in(BumpAllocator& layout, const Shape& shape, int64_t rows) const {
  const Norm::Statistics statistics = norm_.statistics_in(layout, rows);
  return {statistics, layout.take(static_cast<uint64_t>(rows * norm_.width) * core::dtype_size(shape.type))};
}

double HeadTransform::flops(int64_t rows) const {
  const double C = static_cast<double>(norm_.width);
  return 2 * static_cast<double>(rows) * C * C;
}

void HeadTransform::forward(const Call& call, int64_t rows, void* x, const Saved& saved, std::byte* scratch) const {
  if (rows == 0) return;
  Call own = call;
  own.shape = of(call.shape, rows);
  dense_.forward_gelu(own, dense_weight_, x, saved.dense, x, scratch);
  norm_.forward(own, norm_weight_, rows, x, x, saved.statistics);
}

void HeadTransform::backward(const Call& call, int64_t rows, const Saved& saved, void* d, void* buffer,
                             const std::function<void(void*)>& make_input, std::byte* scratch) const {
  Call own = call;
  own.shape = of(call.shape, rows);
  const int64_t n = rows * norm_.width;
  if (rows > 0) gelu_erf(call.shape.type, saved.dense, buffer, n);
  norm_.backward(own, norm_weight_, rows, buffer, d, saved.statistics, nullptr, d, scratch, nullptr);
  if (rows == 0) {  // of a rank that has none of the rows it shares
    for (size_t index : {dense_weight_, dense_weight_ + 1}) {
      const int64_t elements = index == dense_weight_ ? norm_.width * norm_.width : norm_.width;
      const GradTarget grad = grad_target(call, index);
      if (grad.data != nullptr && !grad.accumulate) {
        core::fill_bytes(grad.data, 0, static_cast<size_t>(elements) * core::dtype_size(grad.type));
      }
    }
    return;
  }
  gelu_erf_backward(call.shape.type, saved.dense, d, buffer, n);
  make_input(buffer);
  dense_.weight_gradients(own, dense_weight_, buffer, d, scratch);
  dense_.input_gradient(own, dense_weight_, d, buffer, scratch);
}

}  // namespace zrt::models
