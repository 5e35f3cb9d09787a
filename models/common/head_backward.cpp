// The gradient of the output weights is a sum over chunks. fp32 gradients take it directly. bf16 gradients would round
// it once per chunk, so with several chunks the sum is kept in 32 bits. On a GPU, where one tile has the whole
// vocabulary, products add to it in fp32. Else the sum's high half is in the gradient itself and its low half in the
// workspace (2 bytes per element of the weights instead of 4 for an fp32 copy), tile by tile of the vocabulary. Going
// over the vocabulary twice would need no such sum but a third more FLOPs.
#include <algorithm>

#include "core/device.h"
#include "models/bump_allocator.h"
#include "models/common/head_block.h"
#include "models/kernels/rounding.h"

namespace zrt::models {

Head::Space Head::backward_space(BumpAllocator& layout, const Shape& shape) const {
  const int64_t V = vocab_, C = sizes_.hidden;
  uint64_t scratch = norm_.backward_scratch(row_share(shape));
  const auto cover = [&](const GemmSpec& spec) { scratch = std::max(scratch, find_gemm(spec).workspace_bytes()); };
  for_chunk_sizes(shape, [&](int64_t begin, int64_t rows, int64_t all) {
    cover(logits_spec(shape, rows));
    cover(input_spec(shape, rows));
    if (splits_sum(shape, all)) {
      in_pieces(V, vocab_tile(V), [&](int64_t, int64_t tokens) {
        cover(weight_spec(shape, tokens, rows, DType::f32, sums_in_tile() && begin > 0));
      });
    } else {
      if (begin == 0) cover(weight_spec(shape, V, rows, shape.grad_type, false));
      cover(weight_spec(shape, V, rows, shape.grad_type, true));
    }
  });
  if (has_bias()) scratch = std::max(scratch, bias_gradient_workspace(std::min(chunk_rows(shape), shape.rows()), V));
  for_own_counts(shape, [&](int64_t rows) {
    if (transform_) scratch = std::max(scratch, transform_->backward_scratch(shape, rows));
  });
  if (order_)
    scratch =
        std::max(scratch, order_->scratch(shape, row_share(shape), sizes_.degrees.tensor, shape.T * row_length()));
  Space space{};
  space.scratch = layout.take<std::byte>(scratch);
  if (transform_) space.transformed = layout.take(row_bytes(shape) * static_cast<uint64_t>(row_share(shape)));
  if (order_) space.order = order_->space_in(layout, shape, row_share(shape));
  if (has_bias()) space.bias = layout.take<float>(static_cast<uint64_t>(V) * 4);
  if (sizes_.degrees.tensor == 1) {
    space.normed = layout.take(row_bytes(shape) * static_cast<uint64_t>(shape.rows()));
    space.logits = layout.take(static_cast<uint64_t>(std::min(chunk_rows(shape), shape.rows()) * row_length()) *
                               core::dtype_size(shape.type));
  }
  if (splits_sum(shape, shape.rows())) {
    if (!sums_in_tile()) space.low = layout.take<uint16_t>(static_cast<uint64_t>(V * C) * 2);
    space.tile = layout.take<float>(static_cast<uint64_t>(std::min(vocab_tile(V), V) * C) * 4);
  }
  space.losses = layout.take<double>(static_cast<uint64_t>(losses(shape)) * 8);
  return space;
}

void Head::add_weight_gradient(const Call& call, const Space& space, const Rows& chunk, int64_t all,
                               const void* normed) const {
  if (call.grads[output_weight_] == nullptr) return;
  const Shape& shape = call.shape;
  const int64_t V = vocab_, C = sizes_.hidden, begin = chunk.first, rows = chunk.count;
  const bool keep = call.accumulate[output_weight_] != 0;
  if (!splits_sum(shape, all)) {
    find_gemm(weight_spec(shape, V, rows, shape.grad_type, keep || begin > 0))
        .run(space.logits, normed, call.grads[output_weight_], nullptr, space.scratch);
    return;
  }
  if (sums_in_tile()) {
    find_gemm(weight_spec(shape, V, rows, DType::f32, begin > 0))
        .run(space.logits, normed, space.tile, nullptr, space.scratch);
    if (begin + rows < all) return;
    const GradTarget target = grad_target(call, output_weight_);
    return keep ? write_gradient(space.tile, V * C, target)
                : cast(DType::f32, space.tile, target.type, target.data, V * C);
  }
  const SumPart part = begin == 0 ? SumPart::first : begin + rows == all ? SumPart::last : SumPart::middle;
  in_pieces(V, vocab_tile(V), [&](int64_t token, int64_t tokens) {
    find_gemm(weight_spec(shape, tokens, rows, DType::f32, false))
        .run(offset(space.logits, static_cast<uint64_t>(token) * core::dtype_size(shape.type)), normed, space.tile,
             nullptr, space.scratch);
    split_add(space.tile, static_cast<core::bf16*>(call.grads[output_weight_]) + token * C, space.low + token * C, part,
              keep, tokens * C);
  });
}

// fp32 sums over chunks, so that bf16 gradients are rounded once.
void Head::add_bias_gradient(const Call& call, const Space& space, const void* d, const Rows& chunk,
                             int64_t all) const {
  if (!has_bias() || call.grads[output_bias_] == nullptr) return;
  bias_gradient(call.shape.type, d, chunk.count, vocab_, row_length(), {space.bias, DType::f32, chunk.first > 0},
                space.scratch);
  if (chunk.first + chunk.count == all) write_gradient(space.bias, vocab_, grad_target(call, output_bias_));
}

// Works chunk by chunk of the rows that are counted. Where these are not all they lie, until they become their
// gradients, at the begin of d_normed.
void Head::backward_whole(const Call& call, const Space& space, void* all_normed, void* d_normed) const {
  const Shape& shape = call.shape;
  const CountedRows counted = counted_rows(call, true);
  const int64_t R = shape.rows(), all = counted.rows();
  in_pieces(all, chunk_rows(shape), [&](int64_t begin, int64_t rows) {
    const uint64_t at = static_cast<uint64_t>(begin) * row_bytes(shape);
    void* const d = offset(d_normed, at);
    if (!counted.all()) counted.pick(all_normed, row_bytes(shape), begin, rows, d);
    const void* normed = counted.all() ? offset(all_normed, at) : d;
    const int32_t* targets = (counted.all() ? call.targets : counted.targets()) + begin;
    find_gemm(logits_spec(shape, rows))
        .run(normed, call.weights[output_weight_], space.logits, bias_of(call), space.scratch);
    cap(shape, space.logits, rows);
    cross_entropy(shape.type, space.logits, targets, rows, vocab_, row_length(), cap_, call.loss_scale,
                  space.losses + begin);
    add_weight_gradient(call, space, {begin, rows}, all, normed);
    add_bias_gradient(call, space, space.logits, {begin, rows}, all);
    find_gemm(input_spec(shape, rows)).run(space.logits, call.weights[output_weight_], d, nullptr, space.scratch);
  });
  if (!counted.all()) {
    counted.spread(d_normed, row_bytes(shape), R);
    std::fill(space.losses + all, space.losses + R, 0.0);
  }
  if (order_) {
    order_->classify(call, all_normed, space.order.logits, 2, space.scratch);
    order_->finish_loss(call, space.order.logits, 2, call.loss_scale, space.order, space.losses + R);
    order_->input_gradient(call, space.order, d_normed, space.scratch);
    order_->weight_gradients(call, all_normed, space.order, space.scratch);
  }
  sum_losses(space.losses, losses(shape), call.loss);
}

void Head::backward_norm(const Call& call, const Saved& saved, const Space& space, void* d) const {
  const Rows own = own_rows(call);
  if (order_) order_->take(call, own, saved.normed, d, space.order);
  if (transform_) {
    const auto make_input = [&](void* to) {
      norm_.forward(call, head_norm_weight, own.count, call.input, to, {});
      if (order_) order_->keep_input(call, own, to, space.order);
    };
    transform_->backward(call, own.count, saved.transform, d, space.transformed, make_input, space.scratch);
    d = space.transformed;
  }
  if (order_) order_->finish(call, own, space.order, d, space.scratch);
  norm_.backward(call, head_norm_weight, own.count, call.input, d, saved.statistics, nullptr, call.d_input,
                 space.scratch, nullptr);
}

void Head::backward(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  const int64_t R = shape.rows();
  const bool inputs = call.half != Half::weight, weights = call.half != Half::input;
  if (inputs) check_tokens(call.targets, R, order_ ? swapped : not_counted);
  BumpAllocator saved_layout(call.saved_of(normalize)), layout(call.workspace), held_layout(call.held_of(logits));
  const Saved saved = saved_in(saved_layout, shape);
  Space space = backward_space(layout, shape);
  const Held held = call.held_of(logits) != nullptr ? held_in(held_layout, shape) : Held{};
  if (held.d_order != nullptr) space.order.d_logits = held.d_order;
  void* d_normed = call.d_port_or(normed_port, space.normed);
  void* all_normed = call.port_or(normed_port, inputs ? saved.normed : held.normed);
  if (held.normed != nullptr && inputs) {
    core::copy_bytes(held.normed, all_normed, row_bytes(shape) * static_cast<uint64_t>(R));
  }
  if (void* shared = call.d_port(logits_port)) {
    if (call.parts.has(loss)) make_logits(call, space, all_normed, shared, call.d_port(partials_port));
    if (call.parts.has(logits) && inputs) {
      finish_loss(call, space, shared, call.d_port(partials_port), call.loss_scale);
      find_gemm(input_spec(shape, R)).run(shared, call.weights[output_weight_], d_normed, nullptr, space.scratch);
      if (order_ && call.tensor_rank == 0) order_->input_gradient(call, space.order, d_normed, space.scratch);
    }
    if (call.parts.has(logits) && weights) {
      if (void* grad = call.grads[output_weight_]) {
        find_gemm(weight_spec(shape, vocab_, R, shape.grad_type, call.accumulate[output_weight_] != 0))
            .run(shared, all_normed, grad, nullptr, space.scratch);
      }
      add_bias_gradient(call, space, shared, {0, R}, R);
      if (order_) order_->weight_gradients(call, all_normed, space.order, space.scratch);
    }
  } else if (call.parts.has(loss)) {
    backward_whole(call, space, all_normed, d_normed);
  }
  if (call.parts.has(normalize)) backward_norm(call, saved, space, own_place(call, d_normed));
}

}  // namespace zrt::models
