// A transformer layer. Buffers hold, per token of C = hidden elements:
//   saved: means and deviations of both norms, log-sum-exp per head (fp32); qkv 3C, attention output C, residual after
//          attention C, input of GELU 4C. Norm outputs, GELU output and probabilities are computed again.
#pragma once
#include "models/gpt2/blocks.h"
#include "models/kernels/attention.h"
#include "models/kernels/gemm.h"
#include "models/layout.h"

namespace zrt::models {

class Gpt2Layer : public Gpt2Block {
 public:
  Gpt2Layer(const Gpt2Config& config, int64_t index);

  uint64_t saved_bytes(const Shape& shape) const override;
  uint64_t forward_workspace_bytes(const Shape& shape) const override;
  uint64_t backward_workspace_bytes(const Shape& shape) const override;
  uint64_t cache_bytes(const Shape& shape) const override;
  bool backward_reads_input() const override { return true; }
  void forward(const Call& call) const override;
  void backward(const Call& call) const override;
  void decode(const Call& call) const override;
  double forward_flops(const Shape& shape) const override;

 private:
  enum : size_t {
    ln_1_weight,
    ln_1_bias,
    c_attn_weight,
    c_attn_bias,
    attn_c_proj_weight,
    attn_c_proj_bias,
    ln_2_weight,
    ln_2_bias,
    c_fc_weight,
    c_fc_bias,
    mlp_c_proj_weight,
    mlp_c_proj_bias
  };

  // What backward needs; outside training it lies in the workspace.
  struct Kept {
    float *mean_1, *rstd_1, *mean_2, *rstd_2, *lse;  // null outside training
    void *qkv, *attention, *residual, *fc;
  };
  struct ForwardSpace {
    std::byte* scratch;    // of the matrix products
    void* normed;          // R C, output of a norm
    std::byte* attention;  // workspace of attention
    void* gelu;            // R 4C, over the two above
  };
  struct BackwardSpace {
    std::byte* scratch;
    void* narrow;          // R C
    void* wide;            // R 4C: gradient of fc, then of qkv
    void* gelu;            // R 4C: GELU output, then gradients of width C, then nothing
    void *first, *second;  // R C each, over `gelu`
    std::byte* attention;  // over `gelu`
  };

  Kept kept_in(Layout& layout, const Shape& shape, bool statistics) const;
  ForwardSpace forward_space(Layout& layout, const Shape& shape, Kept* kept) const;
  BackwardSpace backward_space(Layout& layout, const Shape& shape) const;
  AttentionShape attention_shape(const Shape& shape) const;
  void run(const Call& call) const;

  // The three products of a linear layer with weights (in, out) over R rows.
  static GemmSpec linear(const Shape& shape, int64_t in, int64_t out);                          // y = x W + b
  static GemmSpec linear_input(const Shape& shape, int64_t in, int64_t out);                    // dx = dy W^T
  static GemmSpec linear_weight(const Shape& shape, int64_t in, int64_t out, bool accumulate);  // dW = [dW +] x^T dy
  uint64_t forward_scratch(const Shape& shape) const;
  uint64_t backward_scratch(const Shape& shape) const;
  // Gradients of a linear layer's weight and bias, weight at `index` and bias behind it.
  void linear_gradients(const Call& call, size_t index, int64_t in, int64_t out, const void* x, const void* dy,
                        std::byte* scratch) const;

  int64_t index_;
};

}  // namespace zrt::models
