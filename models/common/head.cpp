#include "models/common/head.h"

#include <algorithm>

#include "core/error.h"
#include "models/bump_allocator.h"
#include "models/common/head_block.h"

namespace zrt::models {

Head::Head(const BlockSizes& sizes, const HeadParts& parts)
    : TransformerBlock(sizes, "head"), vocab_(sizes.part(sizes.vocab)), cap_(parts.cap), norm_(parts.norm) {
  norm_.add_params(params_, parts.norm_name, shares_rows());
  if (!parts.transform.dense.empty()) {
    transform_.emplace(parts.norm);
    transform_->add_params(params_, parts.transform, shares_rows());
  }
  if (!parts.order.names.pooler.empty()) {
    order_.emplace(sizes.hidden, parts.order.masking);
    order_->add_params(params_, parts.order.names, shares_rows());
  }
  if (!parts.output_bias.empty()) {
    output_bias_ = params_.size();
    params_.push_back(sliced({parts.output_bias, {sizes.vocab}, Init::zeros}, 0, sizes.degrees.tensor));
  }
  output_weight_ = params_.size();
  params_.push_back(
      sliced({parts.output_weight, {sizes.vocab, sizes.hidden}, Init::normal, 0.02f}, 0, sizes.degrees.tensor));
  anatomy_ = {{"norm", "logits", "loss"},
              {{"norm", normalize, sizes.hidden, enter(sizes.degrees)},
               {"logits", logits, shared_row(), {}},
               {"shares of logits", logits, 1, gathered, sizeof(LogitPart), true}},
              {},
              normalize,
              sizes.degrees.tensor > 1 ? 1u << logits : 0,  // else both come chunk by chunk
              2};
}

double Head::forward_flops(const Shape& shape, Parts run) const {
  const double before = transform_ && run.has(normalize) ? transform_->flops(row_share(shape)) : 0;
  if (!run.has(logits)) return before;
  return before +
         2 * static_cast<double>(shape.rows()) * static_cast<double>(vocab_) * static_cast<double>(sizes_.hidden);
}

std::vector<GemmSpec> Head::products(const Shape& shape) const {
  const int64_t R = shape.rows();
  std::vector<GemmSpec> all{logits_spec(shape, R), input_spec(shape, R),
                            weight_spec(shape, vocab_, R, shape.grad_type, false)};
  all.front().bias = false;
  if (!transform_) return all;
  for (const GemmSpec& spec : transform_->products(shape)) all.push_back(spec);
  return all;
}

uint64_t Head::saved_bytes(const Shape& shape, size_t part) const {
  if (part != normalize || shape.mode != Mode::train) return 0;
  BumpAllocator layout;
  saved_in(layout, shape);
  return layout.bytes();
}

uint64_t Head::forward_workspace_bytes(const Shape& shape) const {
  check_shape(shape);
  BumpAllocator layout;
  forward_space(layout, shape);
  return layout.bytes();
}

uint64_t Head::backward_workspace_bytes(const Shape& shape, Parts, Half) const {
  check_shape(shape);
  BumpAllocator layout;
  backward_space(layout, shape);
  return layout.bytes();
}

Head::Saved Head::saved_in(BumpAllocator& layout, const Shape& shape) const {
  const int64_t rows = row_share(shape);
  const Norm::Statistics statistics = norm_.statistics_in(layout, rows);
  const HeadTransform::Saved transform =
      transform_ ? transform_->saved_in(layout, shape, rows) : HeadTransform::Saved{};
  return {statistics, transform, layout.take(row_bytes(shape) * static_cast<uint64_t>(rows))};
}

Head::Held Head::held_in(BumpAllocator& layout, const Shape& shape) const {
  Held held{};
  if (!shares_rows()) held.normed = layout.take(row_bytes(shape) * static_cast<uint64_t>(shape.rows()));
  if (order_) held.d_order = layout.take(static_cast<uint64_t>(2 * shape.B) * core::dtype_size(shape.type));
  return held;
}

uint64_t Head::held_bytes(const Shape& shape, size_t part) const {
  if (part != logits) return 0;
  BumpAllocator layout;
  held_in(layout, shape);
  return layout.bytes();
}

Head::Space Head::forward_space(BumpAllocator& layout, const Shape& shape) const {
  const uint64_t R = static_cast<uint64_t>(shape.rows());
  Space space{};
  uint64_t scratch = 0;
  for_own_counts(shape, [&](int64_t rows) {
    if (transform_) scratch = std::max(scratch, transform_->forward_scratch(shape, rows));
  });
  if (order_)
    scratch =
        std::max(scratch, order_->scratch(shape, row_share(shape), sizes_.degrees.tensor, shape.T * row_length()));
  if (shape.mode == Mode::train) {
    space.scratch = layout.take<std::byte>(scratch);
    if (order_) space.order = order_->space_in(layout, shape, row_share(shape));
    return space;
  }
  if (shape.mode == Mode::decode) {
    space.scratch = layout.take<std::byte>(find_gemm(logits_spec(shape, shape.rows())).workspace_bytes());
    space.normed = layout.take(row_bytes(shape) * R);
    return space;
  }
  for_chunk_sizes(shape, [&](int64_t, int64_t rows, int64_t) {
    scratch = std::max(scratch, find_gemm(logits_spec(shape, rows)).workspace_bytes());
  });
  space.scratch = layout.take<std::byte>(scratch);
  if (order_) space.order = order_->space_in(layout, shape, row_share(shape));
  if (transform_) space.transform = transform_->saved_in(layout, shape, row_share(shape));
  if (!shares_rows()) space.normed = layout.take(row_bytes(shape) * R);
  if (sizes_.degrees.tensor == 1) {
    space.logits = layout.take(static_cast<uint64_t>(std::min(chunk_rows(shape), shape.rows()) * row_length()) *
                               core::dtype_size(shape.type));
  }
  space.losses = layout.take<double>(static_cast<uint64_t>(losses(shape)) * 8);
  return space;
}

// Makes this rank's logits, and what they say of each row, for all ranks. Rows of first tokens have no target there:
// their first logits are those of the order of runs.
void Head::make_logits(const Call& call, const Space& space, const void* normed, void* to, void* partials) const {
  const Shape& shape = call.shape;
  const int64_t R = shape.rows();
  find_gemm(logits_spec(shape, R)).run(normed, call.weights[output_weight_], to, bias_of(call), space.scratch);
  cap(shape, to, R);
  if (order_) order_->classify(call, normed, to, shape.T * row_length(), space.scratch);
  logit_parts(shape.type, to, call.targets, first_token(call), R, tokens(call), row_length(),
              static_cast<LogitPart*>(partials) + call.tensor_rank * R);
}

void Head::finish_loss(const Call& call, const Space& space, void* from, const void* partials,
                       float gradient_scale) const {
  const Shape& shape = call.shape;
  if (order_) {
    order_->finish_loss(call, from, shape.T * row_length(), gradient_scale, space.order, space.losses + shape.rows());
  }
  cross_entropy_part(shape.type, from, call.targets, first_token(call), shape.rows(), tokens(call), vocab_,
                     row_length(), static_cast<const LogitPart*>(partials), sizes_.degrees.tensor, cap_, gradient_scale,
                     space.losses);
  sum_losses(space.losses, losses(shape), call.loss);
}

void Head::make_normed(const Call& call, const Norm::Statistics& statistics, const HeadTransform::Saved& transform,
                       void* normed, const Space& space) const {
  const Rows own = own_rows(call);
  norm_.forward(call, head_norm_weight, own.count, call.input, normed, statistics);
  if (order_) order_->pool(call, own, normed, space.order, space.scratch);
  if (transform_) transform_->forward(call, own.count, normed, transform, space.scratch);
  if (order_) order_->put(call, own, space.order, normed);
}

void Head::forward(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  const int64_t R = shape.rows();
  if (shape.mode == Mode::train) {
    BumpAllocator layout(call.saved[normalize]);
    const Saved saved = saved_in(layout, shape);
    const int64_t own = own_rows(call).count;
    if (call.finds(normalize)) {
      core::copy_bytes(own_place(call, call.port(normed_port)), saved.normed,
                       static_cast<uint64_t>(own) * row_bytes(shape));
    } else {
      BumpAllocator workspace(call.workspace);
      make_normed(call, saved.statistics, saved.transform, saved.normed, forward_space(workspace, shape));
    }
    return;
  }
  check_tokens(call.targets, R, order_ ? swapped : not_counted);
  BumpAllocator layout(call.workspace);
  const Space space = forward_space(layout, shape);
  void* normed = call.port_or(normed_port, space.normed);
  if (call.parts.has(normalize)) {
    make_normed(call, {}, space.transform, own_place(call, normed), space);
  }
  if (!call.parts.has(logits) && !call.parts.has(loss)) return;
  if (void* shared = call.port(logits_port)) {
    if (call.parts.has(logits)) make_logits(call, space, normed, shared, call.port(partials_port));
    if (call.parts.has(loss)) finish_loss(call, space, shared, call.port(partials_port), 0);
    return;
  }
  // The block's own rows may be overwritten by those that are counted.
  const CountedRows counted = counted_rows(call, !order_ && normed == space.normed);
  const int64_t all = counted.rows();
  in_pieces(all, chunk_rows(shape), [&](int64_t begin, int64_t rows) {
    if (!counted.all()) {
      counted.pick(normed, row_bytes(shape), begin, rows,
                   offset(normed, static_cast<uint64_t>(begin) * row_bytes(shape)));
    }
    const int32_t* targets = (counted.all() ? call.targets : counted.targets()) + begin;
    const void* some = offset(normed, static_cast<uint64_t>(begin) * row_bytes(shape));
    find_gemm(logits_spec(shape, rows))
        .run(some, call.weights[output_weight_], space.logits, bias_of(call), space.scratch);
    cap(shape, space.logits, rows);
    cross_entropy(shape.type, space.logits, targets, rows, vocab_, row_length(), cap_, 0, space.losses + begin);
  });
  std::fill(space.losses + all, space.losses + R, 0.0);
  if (order_) {
    order_->classify(call, normed, space.order.logits, 2, space.scratch);
    order_->finish_loss(call, space.order.logits, 2, 0, space.order, space.losses + R);
  }
  sum_losses(space.losses, losses(shape), call.loss);
}

void Head::decode(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  if (transform_) throw core::Error("Block head names tokens that are hidden, so it cannot make text token by token.");
  BumpAllocator layout(call.workspace);
  const Space space = forward_space(layout, shape);
  norm_.forward(call, head_norm_weight, shape.rows(), call.input, space.normed, {});
  find_gemm(logits_spec(shape, shape.rows()))
      .run(space.normed, call.weights[output_weight_], call.output, nullptr, space.scratch);
  if (cap_ > 0) soft_cap(DType::f32, call.output, cap_, shape.rows() * vocab_);
}

std::unique_ptr<Block> make_head(const BlockSizes& sizes, const HeadParts& parts) {
  return std::make_unique<Head>(sizes, parts);
}

}  // namespace zrt::models
