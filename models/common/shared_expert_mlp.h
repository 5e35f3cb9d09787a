// Experts that a router picks from, and beside them shared ones, with which every row is computed, without a gate (Dai
// et al., "DeepSeekMoE", 2024). Those are one dense MLP as wide as all of them together; its output is added.
//
// A rank computes the dense part of its own rows in the part `route` where experts are spread over ranks. Two
// ports that stay with the rank carry its output to `combine`, and the gradient of that back.
#pragma once
#include <memory>

#include "models/bump_allocator.h"
#include "models/common/mlp.h"

namespace zrt::models {

class SharedExpertMlp final : public Mlp {
 public:
  // expand() of `routed` must leave `space` as it is. The first products of `dense` are joined: they add to the
  // gradient of the input that `routed` writes.
  SharedExpertMlp(int64_t hidden, std::unique_ptr<const Mlp> routed, std::unique_ptr<const Mlp> dense)
      : hidden_(hidden), routed_(std::move(routed)), dense_(std::move(dense)), spread_(!routed_->ports().empty()) {}

  std::vector<Linear> linears(MlpPart part) const override;
  std::optional<MlpPart> routing_part() const override { return routed_->routing_part(); }
  int64_t experts() const override { return routed_->experts(); }
  std::vector<MlpPort> ports() const override;
  int64_t port_rows(const Shape& shape) const override { return routed_->port_rows(shape); }
  double flops(const Shape& shape, MlpPart part) const override;
  std::vector<GemmSpec> products(const Shape& shape) const override;
  uint64_t forward_scratch(const Shape& shape) const override;
  uint64_t backward_scratch(const Shape& shape) const override;
  uint64_t kept_bytes(const Shape& shape) const override;
  uint64_t routed_bytes(const Shape& shape) const override;
  uint64_t forward_bytes(const Shape& shape) const override;
  bool reads_late() const override { return dense_->reads_late(); }
  void route(const Call& call, const Forward& forward, const void* normed) const override;
  void expand(const Call& call, const Forward& forward, const void* normed) const override;
  void project(const Call& call, const Forward& forward, void* to, const void* add) const override;
  void combine(const Call& call, const Forward& forward, void* to, const void* add) const override;
  uint64_t backward_bytes(const Shape& shape, MlpPart part, Half half) const override;
  void backward_combine(const Call& call, const Backward& backward, const void* d_projected) const override;
  void backward_projection(const Call& call, const Backward& backward, const void* d_projected) const override;
  void backward_hidden(const Call& call, const Backward& backward, const void* normed, void* d_normed) const override;
  void backward_route(const Call& call, const Backward& backward, const void* normed, void* d_normed) const override;

 private:
  // The dense part's bytes lie behind the experts' in each buffer.
  Forward of_dense(const Call& call, const Forward& forward) const;
  Backward of_dense(const Call& call, const Backward& backward) const;
  // A spread layer has the two ports under these numbers.
  size_t routed_port() const { return first_mlp_port + routed_->ports().size(); }
  size_t combined_port() const { return routed_port() + 1; }
  void hand_on(const Call& call, void* to, const void* from) const;  // all rows
  // Runs both halves of the dense part's first products, around what the experts do in the same part.
  void backward_around(const Call& call, const Backward& backward, const void* normed, void* d_normed) const;

  int64_t hidden_;
  std::unique_ptr<const Mlp> routed_, dense_;
  bool spread_;
};

}  // namespace zrt::models
