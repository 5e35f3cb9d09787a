#include "models/gpt2/blocks.h"

namespace zrt::models {
namespace {

enum : size_t { wte, wpe };

class Embedding : public Gpt2Block {
 public:
  explicit Embedding(const Gpt2Config& config) : Gpt2Block(config, "wte") {
    params_ = {{"wte.weight", {config.vocab, config.hidden}, Init::normal, 0.02f},
               {"wpe.weight", {config.sequence, config.hidden}, Init::normal, 0.02f}};
  }

  uint64_t saved_bytes(const Shape&) const override { return 0; }
  uint64_t forward_workspace_bytes(const Shape&) const override { return 0; }
  uint64_t backward_workspace_bytes(const Shape& shape) const override {
    return embed_backward_workspace(sizes(shape));
  }
  bool backward_reads_input() const override { return false; }
  double forward_flops(const Shape&) const override { return 0; }

  void forward(const Call& call) const override {
    check_shape(call.shape);
    check_tokens(call.tokens, call.shape.rows(), 0);
    embed(call.shape.type, sizes(call.shape), call.tokens, call.weights[wte], call.weights[wpe], 0,
          dropout(call, embedding_dropout_site), first_element(call), call.output);
  }

  void backward(const Call& call) const override {
    check_shape(call.shape);
    check_tokens(call.tokens, call.shape.rows(), 0);
    embed_backward(call.shape.type, sizes(call.shape), call.tokens, call.d_output,
                   dropout(call, embedding_dropout_site), first_element(call), grad(call, wte), grad(call, wpe),
                   call.workspace);
  }

  void decode(const Call& call) const override {
    check_shape(call.shape);
    check_tokens(call.tokens, call.shape.rows(), 0);
    embed(call.shape.type, sizes(call.shape), call.tokens, call.weights[wte], call.weights[wpe], call.position, {}, 0,
          call.output);
  }

 private:
  EmbeddingShape sizes(const Shape& shape) const {
    return {shape.B, shape.mode == Mode::decode ? 1 : shape.T, config_.hidden, config_.vocab, config_.sequence};
  }
};

}  // namespace

std::unique_ptr<Block> make_gpt2_embedding(const Gpt2Config& config) {
  return std::make_unique<Embedding>(config);
}

}  // namespace zrt::models
