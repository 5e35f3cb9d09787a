#include "models/common/embedding.h"

namespace zrt::models {
namespace {

enum : size_t { token_weight, position_weight };

class Embedding : public TransformerBlock {
 public:
  Embedding(const BlockSizes& sizes, const EmbeddingNames& names)
      : TransformerBlock(sizes, names.block), positions_(!names.positions.empty()), site_(names.dropout_site) {
    params_ = {{names.tokens, {sizes.vocab, sizes.hidden}, Init::normal, 0.02f}};
    if (positions_) params_.push_back({names.positions, {sizes.sequence, sizes.hidden}, Init::normal, 0.02f});
  }

  uint64_t saved_bytes(const Shape&, size_t) const override { return 0; }
  uint64_t forward_workspace_bytes(const Shape&) const override { return 0; }
  uint64_t backward_workspace_bytes(const Shape& shape) const override {
    return embed_backward_workspace(extents(shape));
  }
  bool backward_reads_input() const override { return false; }
  double forward_flops(const Shape&, Parts) const override { return 0; }

  void forward(const Call& call) const override { run(call, 0); }
  void decode(const Call& call) const override { run(call, call.position); }

  void backward(const Call& call) const override {
    check_shape(call.shape);
    check_tokens(call.tokens, call.shape.rows(), 0);
    embed_backward(call.shape.type, extents(call.shape), call.tokens, call.d_output, dropout(call, site_),
                   first_element(call), grad_target(call, token_weight),
                   positions_ ? grad_target(call, position_weight) : GradTarget{}, call.workspace);
  }

 private:
  EmbeddingShape extents(const Shape& shape) const {
    return {shape.B, shape.mode == Mode::decode ? 1 : shape.T, sizes_.hidden, sizes_.vocab, sizes_.sequence};
  }
  void run(const Call& call, int64_t position) const {
    check_shape(call.shape);
    check_tokens(call.tokens, call.shape.rows(), 0);
    embed(call.shape.type, extents(call.shape), call.tokens, call.weights[token_weight],
          positions_ ? call.weights[position_weight] : nullptr, position, dropout(call, site_), first_element(call),
          call.output);
  }

  bool positions_;
  uint32_t site_;
};

}  // namespace

std::unique_ptr<Block> make_embedding(const BlockSizes& sizes, const EmbeddingNames& names) {
  return std::make_unique<Embedding>(sizes, names);
}

}  // namespace zrt::models
