// A block that does what another does, with something before and after each pass: a delay, a failure, a stray write.
#pragma once
#include <functional>
#include <memory>

#include "models/forwarding_block.h"
#include "models/model.h"

namespace zrt::testing {

struct BlockHooks {
  using Hook = std::function<void(const models::Block& block, const models::Call& call, bool backward)>;
  Hook before, after;
};

class WrappedBlock : public models::ForwardingBlock {
 public:
  WrappedBlock(std::shared_ptr<const models::Block> inner, BlockHooks hooks)
      : ForwardingBlock(std::move(inner)), hooks_(std::move(hooks)) {}
  void forward(const models::Call& call) const override {
    run(call, false, [&] { inner().forward(call); });
  }
  void backward(const models::Call& call) const override {
    run(call, true, [&] { inner().backward(call); });
  }
  void decode(const models::Call& call) const override {
    run(call, false, [&] { inner().decode(call); });
  }

 private:
  template <class Pass>
  void run(const models::Call& call, bool backward, const Pass& pass) const {
    if (hooks_.before) hooks_.before(inner(), call, backward);
    pass();
    if (hooks_.after) hooks_.after(inner(), call, backward);
  }
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
