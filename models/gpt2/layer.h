// A GPT-2 layer (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019): layer norm before
// attention and before the MLP, GELU with the tanh approximation. Parameter names and shapes are Hugging Face's; linear
// weights are stored (in, out). Buffers hold, per token of C = hidden elements:
//   saved: means and deviations of both norms, log-sum-exp per head (fp32); qkv 3C, attention output C, residual after
//          attention C, input of GELU 4C. Norm outputs, GELU output and probabilities are computed again.
//   recomputed, where the block keeps less: the input of GELU, which costs one product.
#pragma once
#include <array>

#include "models/bump_allocator.h"
#include "models/common/linear.h"
#include "models/common/norm.h"
#include "models/common/transformer_block.h"
#include "models/kernels/attention.h"
#include "models/model.h"

namespace zrt::models {

// Dropout sites, numbers of RngKey::tensor: the embedding, then three per layer.
enum class DropoutSite : uint32_t { attention, attention_output, mlp_output };
inline constexpr uint32_t gpt2_embedding_dropout_site = 0;
inline uint32_t layer_dropout_site(int64_t layer, DropoutSite site) {
  return 1 + 3 * static_cast<uint32_t>(layer) + static_cast<uint32_t>(site);
}

class Gpt2Layer : public TransformerBlock {
 public:
  Gpt2Layer(const Gpt2Config& config, int64_t index);

  uint64_t saved_bytes(const Shape& shape) const override;
  uint64_t recomputed_bytes(const Shape& shape) const override;
  uint64_t forward_workspace_bytes(const Shape& shape) const override;
  uint64_t backward_workspace_bytes(const Shape& shape) const override;
  uint64_t cache_bytes(const Shape& shape) const override;
  bool backward_reads_input() const override { return true; }
  void forward(const Call& call) const override;
  void backward(const Call& call) const override;
  void decode(const Call& call) const override;
  void recompute(const Call& call) const override;
  bool recompute_writes_output() const override { return false; }
  double recompute_flops(const Shape& shape) const override;
  double forward_flops(const Shape& shape) const override;
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
    Norm::Statistics first_norm, second_norm;  // these and lse: null outside training
    float* lse;
    void *qkv, *attention, *residual, *fc;
  };
  struct ForwardSpace {
    std::byte* scratch;    // of the matrix products
    void* normed;          // R C, output of a norm
    std::byte* attention;  // workspace of attention
    void* gelu;            // R 4C, over the attention's, and over `normed` where products do not apply GELU
  };
  struct BackwardSpace {
    std::byte* scratch;
    void* narrow;          // R C
    void* wide;            // R 4C: gradient of fc, then of qkv
    void* gelu;            // R 4C: GELU output, then gradients of width C, then nothing
    void *first, *second;  // R C each, over `gelu`
    std::byte* attention;  // over `gelu`
  };

  // In training in the block's two buffers, else all in the first.
  Kept kept_in(BumpAllocator& layout, BumpAllocator& recomputed, const Shape& shape) const;
  Kept kept_in(const Call& call) const;
  ForwardSpace forward_space(BumpAllocator& layout, const Shape& shape, Kept* kept) const;
  BackwardSpace backward_space(BumpAllocator& layout, const Shape& shape) const;
  AttentionShape attention_shape(const Shape& shape) const;
  void run(const Call& call) const;

  std::array<Linear, 4> linears() const { return {c_attn_, attention_projection_, c_fc_, mlp_projection_}; }
  uint64_t forward_scratch(const Shape& shape) const;
  uint64_t backward_scratch(const Shape& shape) const;

  int64_t heads_;
  int64_t index_;
  Norm norm_;
  Linear c_attn_, attention_projection_, c_fc_, mlp_projection_;
};

}  // namespace zrt::models
