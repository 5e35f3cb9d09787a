// A block that does what another does, with something before and after each pass: a delay, a failure, a stray write.
#pragma once
#include <functional>
#include <memory>

#include "models/model.h"

namespace zrt::testing {

struct BlockHooks {
  using Hook = std::function<void(const models::Block& block, const models::Call& call, bool backward)>;
  Hook before, after;
};

class WrappedBlock : public models::Block {
 public:
  WrappedBlock(std::shared_ptr<const models::Block> inner, BlockHooks hooks)
      : inner_(std::move(inner)), hooks_(std::move(hooks)) {}
  const std::string& name() const override { return inner_->name(); }
  const std::vector<models::Param>& params() const override { return inner_->params(); }
  int64_t output_width() const override { return inner_->output_width(); }
  const models::Anatomy& anatomy() const override { return inner_->anatomy(); }
  uint64_t saved_bytes(const models::Shape& shape, size_t part) const override {
    return inner_->saved_bytes(shape, part);
  }
  uint64_t held_bytes(const models::Shape& shape, size_t part) const override {
    return inner_->held_bytes(shape, part);
  }
  uint64_t forward_workspace_bytes(const models::Shape& shape) const override {
    return inner_->forward_workspace_bytes(shape);
  }
  uint64_t backward_workspace_bytes(const models::Shape& shape, models::Parts parts, models::Half half) const override {
    return inner_->backward_workspace_bytes(shape, parts, half);
  }
  uint64_t cache_bytes(const models::Shape& shape) const override { return inner_->cache_bytes(shape); }
  bool backward_reads_input() const override { return inner_->backward_reads_input(); }
  double forward_flops(const models::Shape& shape, models::Parts parts) const override {
    return inner_->forward_flops(shape, parts);
  }
  double attention_flops(const models::Shape& shape, models::Parts parts) const override {
    return inner_->attention_flops(shape, parts);
  }
  void forward(const models::Call& call) const override {
    run(call, false, [&] { inner_->forward(call); });
  }
  void backward(const models::Call& call) const override {
    run(call, true, [&] { inner_->backward(call); });
  }
  void decode(const models::Call& call) const override {
    run(call, false, [&] { inner_->decode(call); });
  }

 private:
  template <class Pass>
  void run(const models::Call& call, bool backward, const Pass& pass) const {
    if (hooks_.before) hooks_.before(*inner_, call, backward);
    pass();
    if (hooks_.after) hooks_.after(*inner_, call, backward);
  }
  std::shared_ptr<const models::Block> inner_;
  BlockHooks hooks_;
};

inline models::Model wrap(models::Model model, const BlockHooks& hooks) {
  for (auto& block : model.blocks) block = std::make_unique<WrappedBlock>(std::move(block), hooks);
  return model;
}

// The data-parallel rank that makes a call.
inline int rank_of(const models::Call& call, int ranks) {
  return static_cast<int>(call.first_sample / static_cast<uint64_t>(call.shape.B) % static_cast<uint64_t>(ranks));
}

}  // namespace zrt::testing
