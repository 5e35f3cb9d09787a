// A GPT-2 layer (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): layer norm before
// attention and before the MLP, GELU with the tanh approximation. Parameter names and shapes are Hugging Face's; linear
// weights are stored (in, out). Its parts, and what each keeps per token of C = hidden elements, with A = C
// and F = 4C, of which tensor-parallel ranks have equal parts:
//   norm_1      means and deviations (fp32)
//   attention   queries, keys and values 3A, log-sum-exp per head (fp32), attention output A
//   norm_2      the residual stream after attention C, means and deviations (fp32)
//   hidden      the input of GELU F
//   projection  nothing
//   output      nothing
// Norm outputs, GELU output and probabilities are computed again for backward; with less kept, so is the input of GELU,
// which costs one product.
#pragma once
#include <array>

#include "models/common/dropout_site.h"
#include "models/common/layer.h"
#include "models/common/linear.h"
#include "models/kernels/attention.h"
#include "models/model.h"

namespace zrt::models {

class Gpt2Layer : public Layer {
 public:
  Gpt2Layer(const Gpt2Config& config, int64_t index);

  uint64_t saved_bytes(const Shape& shape, size_t part) const override;
  uint64_t held_bytes(const Shape& shape, size_t part) const override;
  uint64_t forward_workspace_bytes(const Shape& shape) const override;
  uint64_t backward_workspace_bytes(const Shape& shape, Parts parts, Half half) const override;
  uint64_t cache_bytes(const Shape& shape) const override;
  void forward(const Call& call) const override;
  void backward(const Call& call) const override;
  using Block::forward_flops;
  double forward_flops(const Shape& shape, Parts parts) const override;
  double attention_flops(const Shape& shape, Parts parts) const override;
  std::vector<GemmSpec> products(const Shape& shape) const override;

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
    Stream stream;
    float* lse;  // null outside training
    void *qkv, *attention, *fc;
  };
  struct ForwardSpace {
    std::byte* scratch;    // of the matrix products
    void* normed;          // R C, output of a norm; null where that is a port
    std::byte* attention;  // workspace of attention
    void* gelu;            // R F, over the attention's, and over `normed` where products do not apply GELU
  };
  struct BackwardSpace {
    std::byte* scratch;
    void* narrow;                        // R C, or R A where ports hold what is as wide as C
    void *fc, *qkv;                      // R F and R 3A: gradients, one over the other where nothing is held
    void* gelu;                          // R F: GELU output, then gradients of width C, then nothing
    void *first, *second;                // R C each, over `gelu`, where they are no ports
    std::byte* attention;                // over `gelu`
    void *projected, *attended;          // R C each: gradients, held for the weight half
    void *first_normed, *second_normed;  // R C each: outputs of norms, for products' weights
    void* heads;                         // R A: attention's output, held for the weight half
  };

  // What a part keeps, in training.
  void keep(Kept& kept, size_t part, BumpAllocator& layout, const Shape& shape) const;
  Kept kept_in(const Call& call) const;
  Kept kept_in_workspace(BumpAllocator& layout, const Shape& shape) const;
  ForwardSpace forward_space(BumpAllocator& layout, const Shape& shape, Kept* kept) const;
  BackwardSpace backward_space(BumpAllocator& layout, const Shape& shape, Parts parts, Half half) const;
  // What a part holds.
  void hold(BackwardSpace& space, size_t part, BumpAllocator& layout, const Shape& shape) const;
  AttentionShape attention_shape(const Shape& shape, int tensor_rank = 0) const;
  void attend(const Call& call, const Kept& kept, const ForwardSpace& space, const void* normed, void* to,
              const void* add) const;
  void backward_mlp(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_projected,
                    void* d_normed) const;
  void backward_attention(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_attended,
                          void* d_normed) const;
  Dropout dropped(const Call& call, DropoutSite site) const { return dropout(call, layer_dropout_site(index_, site)); }

  std::array<Linear, 4> linears() const { return {c_attn_, attention_projection_, c_fc_, mlp_projection_}; }
  uint64_t forward_scratch(const Shape& shape) const;
  uint64_t backward_scratch(const Shape& shape) const;

  int64_t heads_, all_heads_;  // of this rank and of the layer
  int64_t attended_, ffn_;     // elements of a token that its heads attend with, and of its part of the MLP
  int64_t index_;
  AttentionPattern pattern_;
  Linear c_attn_, attention_projection_, c_fc_, mlp_projection_;
};

}  // namespace zrt::models
