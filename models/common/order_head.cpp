#include "models/common/order_head.h"

#include <algorithm>

#include "core/device.h"
#include "models/common/transformer_block.h"
#include "models/kernels/sentence_order.h"

namespace zrt::models {

void OrderHead::add_params(std::vector<Param>& params, const Names& names, bool summed) {
  pooler_weight_ = params.size();
  params.push_back({names.pooler + ".weight", {C_, C_}, Init::normal, 0.02f, {}, summed});
  params.push_back({names.pooler + ".bias", {C_}, Init::zeros, 0, {}, summed});
  classifier_weight_ = params.size();
  params.push_back({names.classifier + ".weight", {2, C_}, Init::normal, 0.02f});
  params.push_back({names.classifier + ".bias", {2}, Init::zeros});
}

OrderHead::First OrderHead::first_tokens(const Rows& own, int64_t T) {
  const int64_t at = (T - own.first % T) % T;
  return {at, own.count > at ? (own.count - at + T - 1) / T : 0};
}

Call OrderHead::of_rows(const Call& call, int64_t count) const {
  Call own = call;
  own.shape.B = count, own.shape.T = 1, own.shape.fp8 = false;
  return own;
}

void* OrderHead::place(const Call& call, const First& first, void* rows) const {
  return static_cast<std::byte*>(rows) + static_cast<size_t>(first.at * C_) * core::dtype_size(call.shape.type);
}

OrderHead::Space OrderHead::space_in(BumpAllocator& layout, const Shape& shape, int64_t share) const {
  const uint64_t size = core::dtype_size(shape.type);
  const uint64_t rows = static_cast<uint64_t>((share + shape.T - 1) / shape.T * C_) * size;
  const uint64_t two = static_cast<uint64_t>(2 * shape.B) * size;
  Space space{};
  space.rows = layout.take(rows), space.d_rows = layout.take(rows);
  space.logits = layout.take(two), space.d_logits = layout.take(two);
  space.gradients = layout.take<float>(static_cast<uint64_t>(2 * C_ + 2) * sizeof(float));
  return space;
}

uint64_t OrderHead::scratch(const Shape& shape, int64_t share, int ranks, int64_t stride) const {
  uint64_t most = bias_gradient_workspace(shape.B, 2);
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t begin = std::min(rank * share, shape.rows()), end = std::min(begin + share, shape.rows());
    const int64_t count = first_tokens({begin, end - begin}, shape.T).count;
    if (count == 0) continue;
    Call call;
    call.shape = shape;
    const Shape own = of_rows(call, count).shape;
    most = std::max({most, pooler_.forward_scratch(own), pooler_.backward_scratch(own)});
  }
  for (const GemmSpec& spec :
       {logits_spec(shape, 2), logits_spec(shape, stride), input_spec(shape), weight_spec(shape)}) {
    most = std::max(most, find_gemm(spec).workspace_bytes());
  }
  return most;
}

void OrderHead::pool(const Call& call, const Rows& own, const void* rows, const Space& space,
                     std::byte* scratch) const {
  const First first = first_tokens(own, call.shape.T);
  if (first.count == 0) return;
  keep_input(call, own, rows, space);
  pooler_.forward(of_rows(call, first.count), pooler_weight_, space.rows, space.d_rows, scratch);
  tanh_of(call.shape.type, space.d_rows, first.count * C_);
}

void OrderHead::put(const Call& call, const Rows& own, const Space& space, void* rows) const {
  const First first = first_tokens(own, call.shape.T);
  if (first.count == 0) return;
  copy_columns(call.shape.type, space.d_rows, C_, place(call, first, rows), call.shape.T * C_, first.count, C_);
}

void OrderHead::keep_input(const Call& call, const Rows& own, const void* rows, const Space& space) const {
  const First first = first_tokens(own, call.shape.T);
  if (first.count == 0) return;
  copy_columns(call.shape.type, place(call, first, const_cast<void*>(rows)), call.shape.T * C_, space.rows, C_,
               first.count, C_);
}

void OrderHead::take(const Call& call, const Rows& own, const void* pooled, void* d, const Space& space) const {
  const First first = first_tokens(own, call.shape.T);
  if (first.count == 0) return;
  const DType type = call.shape.type;
  const int64_t n = first.count * C_, stride = call.shape.T * C_;
  keep_input(call, own, pooled, space);
  copy_columns(type, place(call, first, d), stride, space.d_rows, C_, first.count, C_);
  tanh_backward(type, space.rows, space.d_rows, n);
  core::fill_bytes(space.rows, 0, static_cast<size_t>(n) * core::dtype_size(type));
  copy_columns(type, space.rows, C_, place(call, first, d), stride, first.count, C_);
}

void OrderHead::finish(const Call& call, const Rows& own, const Space& space, void* d, std::byte* scratch) const {
  const First first = first_tokens(own, call.shape.T);
  if (first.count == 0) {  // of a rank that has none of the rows it shares
    for (const size_t index : {pooler_weight_, pooler_weight_ + 1}) {
      const GradTarget grad = grad_target(call, index);
      const int64_t elements = index == pooler_weight_ ? C_ * C_ : C_;
      if (grad.data == nullptr || grad.accumulate) continue;
      core::fill_bytes(grad.data, 0, static_cast<size_t>(elements) * core::dtype_size(grad.type));
    }
    return;
  }
  const Call rows = of_rows(call, first.count);
  pooler_.weight_gradients(rows, pooler_weight_, space.rows, space.d_rows, scratch);
  pooler_.input_gradient(rows, pooler_weight_, space.d_rows, space.rows, scratch);
  copy_columns(call.shape.type, space.rows, C_, place(call, first, d), call.shape.T * C_, first.count, C_);
}

GemmSpec OrderHead::logits_spec(const Shape& shape, int64_t stride) const {
  return {shape.B, 2, C_, false, true, shape.T * C_, C_, stride, shape.type, shape.type, shape.type, true};
}
GemmSpec OrderHead::input_spec(const Shape& shape) const {
  return {shape.B, C_, 2, false, false, 2, C_, shape.T * C_, shape.type, shape.type, shape.type};
}
GemmSpec OrderHead::weight_spec(const Shape& shape) const {
  return {2, C_, shape.B, true, false, 2, shape.T * C_, C_, shape.type, shape.type, DType::f32};
}

void OrderHead::classify(const Call& call, const void* rows, void* logits, int64_t stride, std::byte* scratch) const {
  find_gemm(logits_spec(call.shape, stride))
      .run(rows, call.weights[classifier_weight_], logits, call.weights[classifier_weight_ + 1], scratch);
}

void OrderHead::finish_loss(const Call& call, const void* logits, int64_t stride, float gradient_scale,
                            const Space& space, double* losses) const {
  const Shape& shape = call.shape;
  const auto weight = static_cast<double>(masking_.predicted(shape.T));
  order_loss(shape.type, logits, {shape.B, shape.T, stride}, call.targets, weight,
             gradient_scale * static_cast<float>(weight), losses, gradient_scale == 0 ? nullptr : space.d_logits);
}

void OrderHead::input_gradient(const Call& call, const Space& space, void* d, std::byte* scratch) const {
  find_gemm(input_spec(call.shape)).run(space.d_logits, call.weights[classifier_weight_], d, nullptr, scratch);
}

void OrderHead::weight_gradients(const Call& call, const void* rows, const Space& space, std::byte* scratch) const {
  const Shape& shape = call.shape;
  find_gemm(weight_spec(shape)).run(space.d_logits, rows, space.gradients, nullptr, scratch);
  bias_gradient(shape.type, space.d_logits, shape.B, 2, 2, {space.gradients + 2 * C_}, scratch);
  write_gradient(space.gradients, 2 * C_, grad_target(call, classifier_weight_));
  write_gradient(space.gradients + 2 * C_, 2, grad_target(call, classifier_weight_ + 1));
}

}  // namespace zrt::models
