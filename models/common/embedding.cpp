#include "models/common/embedding.h"

#include <algorithm>

#include "core/error.h"
#include "models/bump_allocator.h"
#include "models/kernels/scaling.h"

namespace zrt::models {
namespace {

enum : size_t { token_weight, position_weight, type_weight };
constexpr int64_t type_count = 2;

// Parts: the rows of tokens, of which each rank has those of its part of the vocabulary, with those of their types,
// which the first rank adds; and what is added to them, by ranks that share rows to their own.
class Embedding : public TransformerBlock {
 public:
  Embedding(const BlockSizes& sizes, const EmbeddingNames& names)
      : TransformerBlock(sizes, names.block),
        anatomy_{{"lookup", "output"}, {{"lookup", lookup, sizes.hidden, leave(sizes.degrees)}}, {}},
        positions_(!names.positions.empty()),
        types_(!names.types.empty()),
        separator_(names.separator),
        scale_(names.scale),
        site_(names.dropout_site) {
    if (positions_ && scale_ != 1) throw core::Error("An embedding with learned positions has no scale.");
    params_ = {sliced({names.tokens, {sizes.vocab, sizes.hidden}, Init::normal, 0.02f}, 0, sizes.degrees.tensor)};
    if (positions_) {
      params_.push_back({names.positions, {sizes.sequence, sizes.hidden}, Init::normal, 0.02f, {}, shares_rows()});
    }
    if (types_) params_.push_back({names.types, {type_count, sizes.hidden}, Init::normal, 0.02f});
  }

  const Anatomy& anatomy() const override { return anatomy_; }
  uint64_t saved_bytes(const Shape&, size_t) const override { return 0; }
  uint64_t forward_workspace_bytes(const Shape& shape) const override {
    BumpAllocator layout;
    return types_ ? take_types(layout, shape), layout.bytes() : 0;
  }
  uint64_t backward_workspace_bytes(const Shape& shape, Parts, Half) const override {
    uint64_t of_tokens = embed_backward_workspace(extents(shape, 0));
    if (positions_ && shape.documents)
      of_tokens = std::max(of_tokens, embed_backward_workspace(position_extents(shape, {})));
    BumpAllocator layout;
    if (scale_ != 1) return layout.take(of_tokens), layout.take(output_bytes(shape)), layout.bytes();
    if (!types_) return of_tokens;
    take_types(layout, shape), layout.take(embed_backward_workspace(type_extents(shape)));
    return std::max(of_tokens, layout.bytes());
  }
  bool reads_positions() const override { return positions_; }
  bool backward_reads_input() const override { return false; }
  double forward_flops(const Shape&, Parts) const override { return 0; }

  void forward(const Call& call) const override { run(call, 0); }
  void decode(const Call& call) const override { run(call, call.position); }

  void backward(const Call& call) const override {
    const Shape& shape = call.shape;
    check_shape(shape);
    const EmbeddingShape sizes = extents(shape, call.tensor_rank);
    const GradTarget positions = positions_ ? grad_target(call, position_weight) : GradTarget{};
    const Dropout dropped = dropout(call, site_);
    void* d_looked_up = call.d_port(looked_up);
    if (d_looked_up == nullptr) {
      check_tokens(call.tokens, shape.rows(), 0);
      BumpAllocator layout(call.workspace);
      void* space = layout.take(embed_backward_workspace(sizes));
      const GradTarget beside = shape.documents ? GradTarget{} : positions;
      embed_backward(shape.type, sizes, call.tokens, unscaled(call, call.d_output, layout), dropped,
                     first_element(call), grad_target(call, token_weight), beside, space);
      if (shape.documents) position_gradient(call, {}, dropped);
      return type_gradient(call, call.d_output, dropped, first_element(call));
    }
    if (call.parts.has(output)) {
      const Rows own = own_rows(call);
      if (positions_ && shape.documents) {
        position_gradient(call, own, dropped);
      } else if (positions_) {
        embed_backward(shape.type, extents(shape, call.tensor_rank, own), nullptr, call.d_output, dropped,
                       first_element(call), {}, positions, call.workspace);
      }
      apply_dropout(shape.type, call.d_output, dropped, first_element(call), own_place(call, d_looked_up),
                    own.count * sizes_.hidden);
    }
    if (call.parts.has(lookup)) {
      check_tokens(call.tokens, shape.rows(), 0);
      BumpAllocator layout(call.workspace);
      void* space = layout.take(embed_backward_workspace(sizes));
      embed_backward(shape.type, sizes, call.tokens, unscaled(call, d_looked_up, layout), {}, 0,
                     grad_target(call, token_weight), {}, space);
      type_gradient(call, d_looked_up, {}, 0);
    }
  }

 private:
  enum Part : uint8_t { lookup, output };
  enum Port : size_t { looked_up };

  uint64_t output_bytes(const Shape& shape) const { return row_bytes(shape) * static_cast<uint64_t>(shape.rows()); }
  // The scale as the compute type has it, which transformers multiplies by.
  float scale_of(const Shape& shape) const {
    const auto exact = static_cast<float>(scale_);
    if (shape.type == DType::bf16) return core::to_float(core::to_bf16(exact));
    return shape.type == DType::f16 ? core::to_float(core::to_f16(exact)) : exact;
  }
  // rows (all rows, C) become the scaled ones.
  void scale(const Shape& shape, void* rows) const {
    if (scale_ != 1) scale_elements(shape.type, rows, scale_of(shape), rows, shape.rows() * sizes_.hidden);
  }
  // The gradient of the rows before they were scaled.
  const void* unscaled(const Call& call, const void* d, BumpAllocator& layout) const {
    if (scale_ == 1) return d;
    void* to = layout.take(output_bytes(call.shape));
    scale_elements(call.shape.type, d, scale_of(call.shape), to, call.shape.rows() * sizes_.hidden);
    return to;
  }

  EmbeddingShape extents(const Shape& shape, int tensor_rank, std::optional<Rows> own = {}) const {
    const int64_t tokens = sizes_.part(sizes_.vocab);
    return {
        shape.B, shape.mode == Mode::decode ? 1 : shape.T, sizes_.hidden, tokens, sizes_.sequence, tensor_rank * tokens,
        own};
  }
  EmbeddingShape type_extents(const Shape& shape) const {
    return {shape.B, shape.T, sizes_.hidden, type_count, sizes_.sequence};
  }
  // Documents' positions name rows of their table as tokens do of theirs.
  EmbeddingShape position_extents(const Shape& shape, std::optional<Rows> own) const {
    return {shape.B, shape.T, sizes_.hidden, sizes_.sequence, sizes_.sequence, 0, own};
  }
  void position_gradient(const Call& call, std::optional<Rows> own, const Dropout& dropped) const {
    if (!positions_ || call.grads[position_weight] == nullptr) return;
    embed_backward(call.shape.type, position_extents(call.shape, own), call.positions + (own ? own->first : 0),
                   call.d_output, dropped, first_element(call), grad_target(call, position_weight), {}, call.workspace);
  }
  static int32_t* take_types(BumpAllocator& layout, const Shape& shape) {
    return layout.take<int32_t>(static_cast<uint64_t>(shape.rows()) * sizeof(int32_t));
  }
  const int32_t* make_types(const Call& call, BumpAllocator& layout) const {
    int32_t* types = take_types(layout, call.shape);
    token_types(call.tokens, call.shape.B, call.shape.T, separator_, types);
    return types;
  }
  // Every rank has it: the gradient of what was looked up is that of all.
  void type_gradient(const Call& call, const void* d, const Dropout& dropped, uint64_t first) const {
    if (!types_ || call.grads[type_weight] == nullptr) return;
    BumpAllocator layout(call.workspace);
    const int32_t* types = make_types(call, layout);
    const EmbeddingShape extents = type_extents(call.shape);
    embed_backward(call.shape.type, extents, types, d, dropped, first, grad_target(call, type_weight), {},
                   layout.take(embed_backward_workspace(extents)));
  }
  void run(const Call& call, int64_t position) const {
    const Shape& shape = call.shape;
    check_shape(shape);
    EmbeddingShape sizes = extents(shape, call.tensor_rank);
    const bool documents = positions_ && shape.documents;
    if (documents) sizes.row_positions = call.positions;
    const void* weight = call.weights[token_weight];
    const void* positions = positions_ ? call.weights[position_weight] : nullptr;
    void* rows = types_ ? call.port_or(looked_up, call.output) : call.port(looked_up);
    if (call.parts.has(lookup)) check_tokens(call.tokens, shape.rows(), 0);
    if (rows == nullptr) {
      embed(shape.type, sizes, call.tokens, weight, positions, position, dropout(call, site_), first_element(call),
            call.output);
      return scale(shape, call.output);
    }
    if (call.parts.has(lookup)) {
      embed(shape.type, sizes, call.tokens, weight, nullptr, 0, {}, 0, rows);
      scale(shape, rows);
      if (types_ && call.tensor_rank == 0) {
        BumpAllocator layout(call.workspace);
        const int32_t* types = make_types(call, layout);
        add_rows(shape.type, call.weights[type_weight], types, shape.rows(), sizes_.hidden, rows);
      }
    }
    if (call.parts.has(output)) {
      const Rows own = own_rows(call);
      sizes.own = own;
      if (documents) sizes.row_positions = call.positions + own.first;
      embed(shape.type, sizes, nullptr, own_place(call, rows), positions, position, dropout(call, site_),
            first_element(call), call.output);
    }
  }

  Anatomy anatomy_;
  bool positions_, types_;
  int32_t separator_;
  double scale_;
  uint32_t site_;
};

}  // namespace

std::unique_ptr<Block> make_embedding(const BlockSizes& sizes, const EmbeddingNames& names) {
  return std::make_unique<Embedding>(sizes, names);
}

}  // namespace zrt::models
