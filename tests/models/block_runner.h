// Runs the blocks of a model over one microbatch as the runtime would, without the runtime: every buffer is exactly as
// large as the block declares, poisoned before each use and watched by a red zone, so that a block which reads what it
// may not, or writes past what it asked for, is caught here.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "models/model.h"
#include "tests/device.h"
#include "tests/models/guarded_buffer.h"
#include "tests/models/reference.h"

namespace zrt::test {

// The real model of the same configuration.
inline models::Model make_model(const models::Gpt2Config& config) {
  return models::make_gpt2(config);
}
inline models::Model make_model(const models::LlamaConfig& config) {
  return models::make_llama(config);
}
inline models::Model make_model(const models::BertConfig& config) {
  return models::make_bert(config);
}

struct RunOptions {
  float loss_scale = 0;  // 0: 1 / (B * T)
  uint64_t seed = 1;     // of dropout
  uint32_t step = 0;
  uint64_t first_sample = 0;
  bool recompute = false;  // forget what forward saved and run each forward again before its backward
  // Ports of layers at which a call ends and another begins, as bits; of those in `ports` backward is given what it
  // would otherwise make again.
  uint32_t forward_seams = 0, backward_seams = 0, ports = 0;
};

class BlockRunner {
 public:
  // `shape` is of training; `model` must outlive the runner.
  BlockRunner(const models::Model& model, const models::Shape& shape);

  void load(const Tensors& weights);  // rounds to the compute type
  void forget_grads();                // the next train() overwrites gradients; later ones add

  // Forward and backward; returns the sum of the token losses.
  double train(const Batch& batch, const RunOptions& options = {});
  // Forward only, in evaluation mode; returns the sum of the token losses.
  double evaluate(const Batch& batch);
  // Feeds the tokens one position at a time through the cache; returns the logits (B, T, V).
  std::vector<double> decode(const Batch& batch);

  Tensors grads() const;
  const models::RouterTally& router() const { return router_[0]; }  // of all train() so far
  // The loads of all train() so far: what came to each expert of the block.
  const Visible<models::ExpertLoad>& loads(size_t block) const { return loads_[block]; }
  const GuardedBuffer& weight(const std::string& name) const { return weights_.at(name); }
  const GuardedBuffer& grad(const std::string& name) const { return grads_.at(name); }

 private:
  models::Call make_call(size_t block, const models::Shape& shape, const Batch& batch, const RunOptions& options);
  void forward(size_t block, const models::Shape& shape, const Batch& batch, const RunOptions& options);
  void backward(size_t block, const Batch& batch, const RunOptions& options);
  bool layer(size_t block) const { return block > 0 && block + 1 < model_.blocks.size(); }
  // The runs of parts between seams, and buffers for the ports at them.
  std::vector<models::Parts> runs(size_t block, uint32_t seams) const;
  std::vector<GuardedBuffer> make_ports(size_t block, const models::Shape& shape, uint32_t seams) const;
  void remake(size_t block, size_t port, const models::Call& backward, void* to);
  void check(size_t block, const char* pass) const;
  void forget_loss();
  double loss() const;

  const models::Model& model_;
  models::Shape shape_;
  Visible<double> loss_ = Visible<double>(1);
  Visible<models::RouterTally> router_ = Visible<models::RouterTally>(1);
  std::vector<Visible<models::ExpertLoad>> loads_;  // by block
  Visible<int32_t> tokens_, targets_, positions_;
  std::map<std::string, GuardedBuffer> weights_, grads_;
  std::map<std::string, int64_t> elements_;
  std::map<std::string, bool> written_;  // gradients that hold a sum to add to
  std::vector<GuardedBuffer> outputs_;
  std::vector<std::vector<GuardedBuffer>> saved_;  // by block and part
  std::vector<std::byte*> saved_pointers_;
  GuardedBuffer d_output_, d_input_, workspace_;
  std::vector<const void*> weight_pointers_;
  std::vector<void*> grad_pointers_;
  std::vector<uint8_t> accumulate_;
};

}  // namespace zrt::test
