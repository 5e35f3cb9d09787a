// A block of one's own: a gated mean over the past instead of attention. With u = x·U and g = x·G,
//   y_t = x_t + sigmoid(g_t) ∘ (u_0 + … + u_t) / (t + 1)
#pragma once
#include "models/block.h"

// `index` numbers the blocks of a model; parameters are "mean.<index>.u.weight" and "mean.<index>.g.weight", (C, C).
class MeanBlock : public zrt::models::Block {
 public:
  MeanBlock(int64_t index, int64_t width);
  const std::string& name() const override { return name_; }
  const std::vector<zrt::models::Param>& params() const override { return params_; }
  int64_t output_width() const override { return width_; }

  uint64_t saved_bytes(const zrt::models::Shape& shape, size_t part) const override;
  uint64_t forward_workspace_bytes(const zrt::models::Shape& shape) const override;
  uint64_t backward_workspace_bytes(const zrt::models::Shape& shape, zrt::models::Parts parts,
                                    zrt::models::Half half) const override;
  bool backward_reads_input() const override { return true; }

  void forward(const zrt::models::Call& call) const override;
  void backward(const zrt::models::Call& call) const override;
  void decode(const zrt::models::Call& call) const override;
  double forward_flops(const zrt::models::Shape& shape, zrt::models::Parts parts) const override;

 private:
  std::string name_;
  int64_t width_;
  std::vector<zrt::models::Param> params_;
};
