// The gradient of the output weights is a sum over chunks. fp32 gradients take it directly. bf16 gradients would round
// it once per chunk, so with several chunks the sum is kept in 32 bits: its high half in the gradient itself, its low
// half in the workspace (2 bytes per element of the weights instead of 4 for an fp32 copy), tile by tile of the
// vocabulary. Going over the vocabulary twice would need no such sum but a third more FLOPs.
#include "models/common/head.h"

#include <algorithm>
#include <optional>

#include "core/device.h"
#include "core/error.h"
#include "models/bump_allocator.h"
#include "models/kernels/gemm.h"
#include "models/kernels/rounding.h"

namespace zrt::models {
namespace {

constexpr size_t norm_weight = 0;
// Rows of logits held at a time: on a GPU many, because every chunk reads and writes the whole weight gradient.
int64_t most_chunk_rows() {
  return core::place().device == core::DeviceKind::cuda ? 8192 : 512;
}
// Rows of the weight gradient made at a time; a GPU makes all of them, in few large products.
int64_t vocab_tile(int64_t V) {
  return core::place().device == core::DeviceKind::cuda ? V : 4096;
}

// Parts: the norm; logits, of which each rank has those of its part of the vocabulary, and what it tells the others of
// them; the loss, and in backward the gradients. Ranks that share the vocabulary hold their logits of all rows at a
// time. Where they share rows, too, each has the norm of its own and keeps it; for logits, and for backward, these are
// brought together.
class Head : public TransformerBlock {
 public:
  Head(const BlockSizes& sizes, const HeadParts& parts)
      : TransformerBlock(sizes, "head"), vocab_(sizes.part(sizes.vocab)), norm_(parts.norm) {
    norm_.add_params(params_, parts.norm_name, shares_rows());
    if (!parts.transform.dense.empty()) {
      transform_.emplace(parts.norm);
      transform_->add_params(params_, parts.transform, shares_rows());
    }
    if (!parts.output_bias.empty()) {
      output_bias_ = params_.size();
      params_.push_back(sliced({parts.output_bias, {sizes.vocab}, Init::zeros}, 0, sizes.tensor));
    }
    output_weight_ = params_.size();
    params_.push_back(sliced({parts.output_weight, {sizes.vocab, sizes.hidden}, Init::normal, 0.02f}, 0, sizes.tensor));
    anatomy_ = {{"norm", "logits", "loss"},
                {{"norm", norm, sizes.hidden, Seam::enter},
                 {"logits", logits, shared_row(), Seam::stay},
                 {"shares of logits", logits, 1, Seam::tell, sizeof(LogitPart)}},
                {},
                norm,
                sizes.tensor > 1 ? 1u << logits : 0,  // else both come chunk by chunk
                2};
  }

  const Anatomy& anatomy() const override { return anatomy_; }
  bool backward_reads_input() const override { return true; }
  double forward_flops(const Shape& shape, Parts run) const override {
    const double before = transform_ && run.has(norm) ? transform_->flops(row_share(shape)) : 0;
    if (!run.has(logits)) return before;
    return before +
           2 * static_cast<double>(shape.rows()) * static_cast<double>(vocab_) * static_cast<double>(sizes_.hidden);
  }

  // In one piece, where the block itself works in chunks.
  std::vector<GemmSpec> products(const Shape& shape) const override {
    const int64_t R = shape.rows();
    std::vector<GemmSpec> all{logits_spec(shape, R), input_spec(shape, R),
                              weight_spec(shape, vocab_, R, shape.grad_type, false)};
    all.front().bias = false;
    if (!transform_) return all;
    for (const GemmSpec& spec : transform_->products(shape)) all.push_back(spec);
    return all;
  }

  uint64_t saved_bytes(const Shape& shape, size_t part) const override {
    if (part != norm || shape.mode != Mode::train) return 0;
    BumpAllocator layout;
    saved_in(layout, shape);
    return layout.bytes();
  }
  uint64_t forward_workspace_bytes(const Shape& shape) const override {
    check_shape(shape);
    BumpAllocator layout;
    forward_space(layout, shape);
    return layout.bytes();
  }
  uint64_t backward_workspace_bytes(const Shape& shape, Parts, Half) const override {
    check_shape(shape);
    BumpAllocator layout;
    backward_space(layout, shape);
    return layout.bytes();
  }

  // Of the weight half of logits: what they were made of, where no port brings it.
  uint64_t held_bytes(const Shape& shape, size_t part) const override {
    return part != logits || shares_rows() ? 0 : row_bytes(shape) * static_cast<uint64_t>(shape.rows());
  }

  void forward(const Call& call) const override;
  void backward(const Call& call) const override;
  void decode(const Call& call) const override;

 private:
  enum Part : uint8_t { norm, logits, loss };
  enum Port : size_t { normed_port, logits_port, told_port };

  struct Saved {
    Norm::Statistics statistics;
    HeadTransform::Saved transform;
    void* normed;  // R C, of own rows: what logits are made of
  };
  struct Space {
    std::byte* scratch;
    HeadTransform::Saved transform;  // outside training
    void* transformed;               // R C, of own rows: on the way back through the transform
    float* bias;                     // V: gradient of the output's bias
    void* normed;                    // R C: output of the norm, in backward its gradient; where these are no ports
    void* logits;                    // (chunk, V), rows row_length() apart
    double* losses;                  // R
    uint16_t* low;                   // (V, C)
    float* tile;                     // (vocab_tile, C)
  };

  Saved saved_in(BumpAllocator& layout, const Shape& shape) const {
    const int64_t rows = row_share(shape);
    const Norm::Statistics statistics = norm_.statistics_in(layout, rows);
    const HeadTransform::Saved transform =
        transform_ ? transform_->saved_in(layout, shape, rows) : HeadTransform::Saved{};
    return {statistics, transform, layout.take(row_bytes(shape) * static_cast<uint64_t>(rows))};
  }
  // What logits are made of, for own rows.
  void make_normed(const Call& call, const Norm::Statistics& statistics, const HeadTransform::Saved& transform,
                   void* normed, std::byte* scratch) const;
  // Calls body(count) for every number of rows that some rank has of its own.
  template <class Body>
  void for_own_counts(const Shape& shape, const Body& body) const {
    const int64_t all = shape.rows(), share = row_share(shape);
    body(std::min(share, all));
    if (all % share != 0) body(all % share);
  }
  Space forward_space(BumpAllocator& layout, const Shape& shape) const;
  Space backward_space(BumpAllocator& layout, const Shape& shape) const;

  // Whether the weight gradient is a rounded sum of several chunks.
  bool split_sum(const Shape& shape) const {
    return shape.grad_type == DType::bf16 && shape.rows() > chunk_rows(shape);
  }

  // Of the rows that ranks share; any back end reads them fast.
  int64_t shared_row() const { return (vocab_ + 63) / 64 * 64; }
  int64_t row_length() const { return sizes_.tensor > 1 ? shared_row() : product_stride(vocab_); }
  // Rows of logits held at a time.
  int64_t chunk_rows(const Shape& shape) const { return sizes_.tensor > 1 ? shape.rows() : most_chunk_rows(); }
  // The tokens of this rank.
  int64_t first_token(const Call& call) const { return call.tensor_rank * vocab_; }
  int64_t tokens(const Call& call) const { return std::clamp<int64_t>(sizes_.vocab - first_token(call), 0, vocab_); }
  void make_logits(const Call& call, const Space& space, const void* normed, void* to, void* told) const;
  void lose(const Call& call, const Space& space, void* from, const void* told, float gradient_scale) const;

  // Decoding gives its logits away, dense and in fp32.
  GemmSpec logits_spec(const Shape& shape, int64_t rows) const {
    const int64_t V = vocab_, C = sizes_.hidden;
    const bool given = shape.mode == Mode::decode;
    const DType result = given ? DType::f32 : shape.type;
    return {rows, V, C, false, true, C, C, given ? V : row_length(), shape.type, shape.type, result, has_bias()};
  }
  bool has_bias() const { return output_bias_ > 0; }
  const void* bias_of(const Call& call) const { return has_bias() ? call.weights[output_bias_] : nullptr; }
  // += the sum of `rows` rows of gradients of logits; written to the gradient itself when all are in it.
  void add_bias_gradient(const Call& call, const Space& space, const void* d, int64_t begin, int64_t rows) const;
  GemmSpec input_spec(const Shape& shape, int64_t rows) const {
    const int64_t V = vocab_, C = sizes_.hidden;
    return {rows, C, V, false, false, row_length(), C, C, shape.type, shape.type, shape.type, false, false, 1};
  }
  // Rows `tokens` of the weight gradient from `rows` rows of logits.
  GemmSpec weight_spec(const Shape& shape, int64_t tokens, int64_t rows, DType result, bool accumulate) const {
    const int64_t C = sizes_.hidden;
    return {tokens, C, rows, true, false, row_length(), C, C, shape.type, shape.type, result, false, accumulate, 1};
  }
  void add_weight_gradient(const Call& call, const Space& space, int64_t begin, int64_t rows, const void* normed) const;

  int64_t vocab_;  // of this rank, with padding
  Anatomy anatomy_;
  Norm norm_;
  std::optional<HeadTransform> transform_;
  size_t output_weight_ = 0, output_bias_ = 0;
};

// Calls body(begin, count) on pieces of at most `piece` of `total`.
template <class Body>
void in_pieces(int64_t total, int64_t piece, const Body& body) {
  for (int64_t begin = 0; begin < total; begin += piece) body(begin, std::min(piece, total - begin));
}

std::byte* offset(void* data, uint64_t bytes) {
  return static_cast<std::byte*>(data) + bytes;
}

Head::Space Head::forward_space(BumpAllocator& layout, const Shape& shape) const {
  const uint64_t R = static_cast<uint64_t>(shape.rows());
  Space space{};
  uint64_t scratch = 0;
  for_own_counts(shape, [&](int64_t rows) {
    if (transform_) scratch = std::max(scratch, transform_->forward_scratch(shape, rows));
  });
  if (shape.mode == Mode::train) {
    space.scratch = layout.take<std::byte>(scratch);
    return space;
  }
  if (shape.mode == Mode::decode) {
    space.scratch = layout.take<std::byte>(find_gemm(logits_spec(shape, shape.rows())).workspace_bytes());
    space.normed = layout.take(row_bytes(shape) * R);
    return space;
  }
  in_pieces(shape.rows(), chunk_rows(shape), [&](int64_t, int64_t rows) {
    scratch = std::max(scratch, find_gemm(logits_spec(shape, rows)).workspace_bytes());
  });
  space.scratch = layout.take<std::byte>(scratch);
  if (transform_) space.transform = transform_->saved_in(layout, shape, row_share(shape));
  if (!shares_rows()) space.normed = layout.take(row_bytes(shape) * R);
  if (sizes_.tensor == 1) {
    space.logits = layout.take(static_cast<uint64_t>(std::min(chunk_rows(shape), shape.rows()) * row_length()) *
                               core::dtype_size(shape.type));
  }
  space.losses = layout.take<double>(R * 8);
  return space;
}

Head::Space Head::backward_space(BumpAllocator& layout, const Shape& shape) const {
  const int64_t V = vocab_, C = sizes_.hidden;
  uint64_t scratch = norm_.backward_scratch(row_share(shape));
  const auto cover = [&](const GemmSpec& spec) { scratch = std::max(scratch, find_gemm(spec).workspace_bytes()); };
  in_pieces(shape.rows(), chunk_rows(shape), [&](int64_t begin, int64_t rows) {
    cover(logits_spec(shape, rows));
    cover(input_spec(shape, rows));
    if (split_sum(shape)) {
      in_pieces(V, vocab_tile(V),
                [&](int64_t, int64_t tokens) { cover(weight_spec(shape, tokens, rows, DType::f32, false)); });
    } else {
      if (begin == 0) cover(weight_spec(shape, V, rows, shape.grad_type, false));
      cover(weight_spec(shape, V, rows, shape.grad_type, true));
    }
  });
  if (has_bias()) scratch = std::max(scratch, bias_gradient_workspace(std::min(chunk_rows(shape), shape.rows()), V));
  for_own_counts(shape, [&](int64_t rows) {
    if (transform_) scratch = std::max(scratch, transform_->backward_scratch(shape, rows));
  });
  Space space{};
  space.scratch = layout.take<std::byte>(scratch);
  if (transform_) space.transformed = layout.take(row_bytes(shape) * static_cast<uint64_t>(row_share(shape)));
  if (has_bias()) space.bias = layout.take<float>(static_cast<uint64_t>(V) * 4);
  if (sizes_.tensor == 1) {
    space.normed = layout.take(row_bytes(shape) * static_cast<uint64_t>(shape.rows()));
    space.logits = layout.take(static_cast<uint64_t>(std::min(chunk_rows(shape), shape.rows()) * row_length()) *
                               core::dtype_size(shape.type));
  }
  if (split_sum(shape)) {
    space.low = layout.take<uint16_t>(static_cast<uint64_t>(V * C) * 2);
    space.tile = layout.take<float>(static_cast<uint64_t>(std::min(vocab_tile(V), V) * C) * 4);
  }
  space.losses = layout.take<double>(static_cast<uint64_t>(shape.rows()) * 8);
  return space;
}

// What this rank's logits say of each row, for all ranks.
void Head::make_logits(const Call& call, const Space& space, const void* normed, void* to, void* told) const {
  const Shape& shape = call.shape;
  const int64_t R = shape.rows();
  find_gemm(logits_spec(shape, R)).run(normed, call.weights[output_weight_], to, bias_of(call), space.scratch);
  logit_parts(shape.type, to, call.targets, first_token(call), R, tokens(call), row_length(),
              static_cast<LogitPart*>(told) + call.tensor_rank * R);
}

void Head::lose(const Call& call, const Space& space, void* from, const void* told, float gradient_scale) const {
  const Shape& shape = call.shape;
  cross_entropy_part(shape.type, from, call.targets, first_token(call), shape.rows(), tokens(call), vocab_,
                     row_length(), static_cast<const LogitPart*>(told), sizes_.tensor, gradient_scale, space.losses);
  sum_losses(space.losses, shape.rows(), call.loss);
}

void Head::make_normed(const Call& call, const Norm::Statistics& statistics, const HeadTransform::Saved& transform,
                       void* normed, std::byte* scratch) const {
  const int64_t rows = own_rows(call).count;
  norm_.forward(call, norm_weight, rows, call.input, normed, statistics);
  if (transform_) transform_->forward(call, rows, normed, transform, scratch);
}

void Head::forward(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  const int64_t R = shape.rows();
  if (shape.mode == Mode::train) {
    BumpAllocator layout(call.saved[norm]);
    const Saved saved = saved_in(layout, shape);
    const int64_t own = own_rows(call).count;
    if (call.finds(norm)) {
      core::copy_bytes(own_place(call, call.port(normed_port)), saved.normed,
                       static_cast<uint64_t>(own) * row_bytes(shape));
    } else {
      BumpAllocator workspace(call.workspace);
      make_normed(call, saved.statistics, saved.transform, saved.normed, forward_space(workspace, shape).scratch);
    }
    return;
  }
  check_tokens(call.targets, R, not_counted);
  BumpAllocator layout(call.workspace);
  const Space space = forward_space(layout, shape);
  void* normed = call.port_or(normed_port, space.normed);
  if (call.parts.has(norm)) {
    make_normed(call, {}, space.transform, own_place(call, normed), space.scratch);
  }
  if (!call.parts.has(logits) && !call.parts.has(loss)) return;
  if (void* shared = call.port(logits_port)) {
    if (call.parts.has(logits)) make_logits(call, space, normed, shared, call.port(told_port));
    if (call.parts.has(loss)) lose(call, space, shared, call.port(told_port), 0);
    return;
  }
  in_pieces(R, chunk_rows(shape), [&](int64_t begin, int64_t rows) {
    const void* some = offset(normed, static_cast<uint64_t>(begin) * row_bytes(shape));
    find_gemm(logits_spec(shape, rows))
        .run(some, call.weights[output_weight_], space.logits, bias_of(call), space.scratch);
    cross_entropy(shape.type, space.logits, call.targets + begin, rows, vocab_, row_length(), 0, space.losses + begin);
  });
  sum_losses(space.losses, R, call.loss);
}

void Head::add_weight_gradient(const Call& call, const Space& space, int64_t begin, int64_t rows,
                               const void* normed) const {
  const Shape& shape = call.shape;
  const int64_t V = vocab_, C = sizes_.hidden;
  const bool keep = call.accumulate[output_weight_] != 0;
  if (!split_sum(shape)) {
    find_gemm(weight_spec(shape, V, rows, shape.grad_type, keep || begin > 0))
        .run(space.logits, normed, call.grads[output_weight_], nullptr, space.scratch);
    return;
  }
  const SumPart part = begin == 0 ? SumPart::first : begin + rows == shape.rows() ? SumPart::last : SumPart::middle;
  in_pieces(V, vocab_tile(V), [&](int64_t token, int64_t tokens) {
    find_gemm(weight_spec(shape, tokens, rows, DType::f32, false))
        .run(offset(space.logits, static_cast<uint64_t>(token) * core::dtype_size(shape.type)), normed, space.tile,
             nullptr, space.scratch);
    split_add(space.tile, static_cast<core::bf16*>(call.grads[output_weight_]) + token * C, space.low + token * C, part,
              keep, tokens * C);
  });
}

// fp32 sums over chunks, so that bf16 gradients are rounded once.
void Head::add_bias_gradient(const Call& call, const Space& space, const void* d, int64_t begin, int64_t rows) const {
  if (!has_bias()) return;
  bias_gradient(call.shape.type, d, rows, vocab_, row_length(), {space.bias, DType::f32, begin > 0}, space.scratch);
  if (begin + rows == call.shape.rows()) write_gradient(space.bias, vocab_, grad_target(call, output_bias_));
}

void Head::backward(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  const int64_t R = shape.rows();
  const bool inputs = call.half != Half::weight, weights = call.half != Half::input;
  if (inputs) check_tokens(call.targets, R, not_counted);
  BumpAllocator saved_layout(call.saved_of(norm)), layout(call.workspace);
  const Saved saved = saved_in(saved_layout, shape);
  const Space space = backward_space(layout, shape);
  void* d_normed = call.d_port_or(normed_port, space.normed);
  void* all_normed = call.port_or(normed_port, inputs ? saved.normed : call.held_of(logits));
  if (void* held = call.held_of(logits); held != nullptr && inputs) {
    core::copy_bytes(held, all_normed, row_bytes(shape) * static_cast<uint64_t>(R));
  }
  if (void* shared = call.d_port(logits_port)) {
    if (call.parts.has(loss)) make_logits(call, space, all_normed, shared, call.d_port(told_port));
    if (call.parts.has(logits) && inputs) {
      lose(call, space, shared, call.d_port(told_port), call.loss_scale);
      find_gemm(input_spec(shape, R)).run(shared, call.weights[output_weight_], d_normed, nullptr, space.scratch);
    }
    if (call.parts.has(logits) && weights) {
      find_gemm(weight_spec(shape, vocab_, R, shape.grad_type, call.accumulate[output_weight_] != 0))
          .run(shared, all_normed, call.grads[output_weight_], nullptr, space.scratch);
      add_bias_gradient(call, space, shared, 0, R);
    }
  } else if (call.parts.has(loss)) {
    in_pieces(R, chunk_rows(shape), [&](int64_t begin, int64_t rows) {
      const uint64_t at = static_cast<uint64_t>(begin) * row_bytes(shape);
      const void* normed = offset(all_normed, at);
      find_gemm(logits_spec(shape, rows))
          .run(normed, call.weights[output_weight_], space.logits, bias_of(call), space.scratch);
      cross_entropy(shape.type, space.logits, call.targets + begin, rows, vocab_, row_length(), call.loss_scale,
                    space.losses + begin);
      find_gemm(input_spec(shape, rows))
          .run(space.logits, call.weights[output_weight_], offset(d_normed, at), nullptr, space.scratch);
      add_weight_gradient(call, space, begin, rows, normed);
      add_bias_gradient(call, space, space.logits, begin, rows);
    });
    sum_losses(space.losses, R, call.loss);
  }
  if (call.parts.has(norm)) {
    const int64_t own = own_rows(call).count;
    void* d = own_place(call, d_normed);
    if (transform_) {
      const auto make_input = [&](void* to) { norm_.forward(call, norm_weight, own, call.input, to, {}); };
      transform_->backward(call, own, saved.transform, d, space.transformed, make_input, space.scratch);
      d = space.transformed;
    }
    norm_.backward(call, norm_weight, own, call.input, d, saved.statistics, nullptr, call.d_input, space.scratch,
                   nullptr);
  }
}

void Head::decode(const Call& call) const {
  const Shape& shape = call.shape;
  check_shape(shape);
  if (transform_) throw core::Error("Block head names tokens that are hidden, so it cannot make text token by token.");
  BumpAllocator layout(call.workspace);
  const Space space = forward_space(layout, shape);
  norm_.forward(call, norm_weight, shape.rows(), call.input, space.normed, {});
  find_gemm(logits_spec(shape, shape.rows()))
      .run(space.normed, call.weights[output_weight_], call.output, nullptr, space.scratch);
}

}  // namespace

std::unique_ptr<Block> make_head(const BlockSizes& sizes, const HeadParts& parts) {
  return std::make_unique<Head>(sizes, parts);
}

}  // namespace zrt::models
