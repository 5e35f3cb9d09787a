// A block that does what another one does, for blocks that differ from it in one point.
#pragma once
#include <memory>

#include "models/block.h"

namespace zrt::models {

class ForwardingBlock : public Block {
 public:
  explicit ForwardingBlock(std::shared_ptr<const Block> inner) : inner_(std::move(inner)) {}
  const std::string& name() const override { return inner_->name(); }
  const std::vector<Param>& params() const override { return inner_->params(); }
  int64_t output_width() const override { return inner_->output_width(); }
  const Anatomy& anatomy() const override { return inner_->anatomy(); }
  int64_t port_rows(size_t port, const Shape& shape) const override { return inner_->port_rows(port, shape); }
  uint64_t saved_bytes(const Shape& shape, size_t part) const override { return inner_->saved_bytes(shape, part); }
  uint64_t held_bytes(const Shape& shape, size_t part) const override { return inner_->held_bytes(shape, part); }
  uint64_t forward_workspace_bytes(const Shape& shape) const override { return inner_->forward_workspace_bytes(shape); }
  uint64_t backward_workspace_bytes(const Shape& shape, Parts parts, Half half) const override {
    return inner_->backward_workspace_bytes(shape, parts, half);
  }
  uint64_t cache_bytes(const Shape& shape) const override { return inner_->cache_bytes(shape); }
  bool reads_positions() const override { return inner_->reads_positions(); }
  bool backward_reads_input() const override { return inner_->backward_reads_input(); }
  std::optional<size_t> routing_part() const override { return inner_->routing_part(); }
  int64_t experts() const override { return inner_->experts(); }
  void forward(const Call& call) const override { inner_->forward(call); }
  void backward(const Call& call) const override { inner_->backward(call); }
  void decode(const Call& call) const override { inner_->decode(call); }
  bool draws_numbers() const override { return inner_->draws_numbers(); }
  using Block::forward_flops;
  double forward_flops(const Shape& shape, Parts parts) const override { return inner_->forward_flops(shape, parts); }
  double attention_flops(const Shape& shape, Parts parts) const override {
    return inner_->attention_flops(shape, parts);
  }
  Scores scores(const Shape& shape) const override { return inner_->scores(shape); }
  std::vector<GemmSpec> products(const Shape& shape) const override { return inner_->products(shape); }

 protected:
  const Block& inner() const { return *inner_; }

 private:
  std::shared_ptr<const Block> inner_;
};

}  // namespace zrt::models
