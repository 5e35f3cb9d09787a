// A Llama layer (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023): RMS norm before
// attention and before the MLP, rotary positions, heads of queries sharing heads of keys and values, SwiGLU, no biases.
// Parameter names and shapes are Hugging Face's; linear weights are stored (out, in), rotary pairs are the halves of a
// head. With LlamaConfig::head_norms each head's queries and keys have an RMS norm in front of the rotation (Henry et
// al., "Query-Key Normalization for Transformers", 2020). Buffers hold, per token of C = hidden, A = heads · head
// width, Q = A + 2 · kv_heads · head width and F = ffn elements:
//   saved: deviations of the norms, log-sum-exp per head (fp32); queries, keys and values Q, rotated or, where they are
//          normed, as the products made them; attention
//          output A, residual after attention C, gate F, up F. Norm outputs, SwiGLU and probabilities are computed
//          again.
//   recomputed, where the block keeps less: gate and up, which cost one product each.
#pragma once
#include <array>

#include "models/bump_allocator.h"
#include "models/common/linear.h"
#include "models/common/norm.h"
#include "models/common/transformer_block.h"
#include "models/kernels/attention.h"
#include "models/model.h"

namespace zrt::models {

class LlamaLayer : public TransformerBlock {
 public:
  LlamaLayer(const LlamaConfig& config, int64_t index);

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
    input_norm_weight,
    q_weight,
    k_weight,
    v_weight,
    o_weight,
    post_attention_norm_weight,
    gate_weight,
    up_weight,
    down_weight,
    q_norm_weight,
    k_norm_weight
  };

  // What backward needs; outside training it lies in the workspace.
  struct Kept {
    Norm::Statistics first_norm, second_norm;  // these and lse: null outside training
    float *lse, *q_rstd, *k_rstd;              // … the latter two also where heads have no norms
    void *qkv, *attention, *residual, *gate, *up;
  };
  struct ForwardSpace {
    std::byte* scratch;    // of the matrix products
    void* normed;          // R C, output of a norm
    void* heads;           // R Q, what attention reads: over `normed`, or Kept::qkv
    std::byte* attention;  // workspace of attention
    void* hidden;          // R F, output of SwiGLU, over the two above
  };
  struct BackwardSpace {
    std::byte* scratch;
    void* narrow;          // R C or R A
    void *gate, *up;       // R F each: gradients
    void* qkv;             // R Q: gradient, over `gate`
    void* heads;           // R Q: as forward's, or null
    std::byte* attention;  // over `gate` and `up`
  };

  // In training in the block's two buffers, else all in the first.
  Kept kept_in(BumpAllocator& layout, BumpAllocator& recomputed, const Shape& shape) const;
  Kept kept_in(const Call& call) const;
  ForwardSpace forward_space(BumpAllocator& layout, const Shape& shape, Kept* kept) const;
  BackwardSpace backward_space(BumpAllocator& layout, const Shape& shape) const;
  AttentionShape attention_shape(const Shape& shape) const;
  void rotate(const Call& call, bool backward, void* qkv) const;
  // From kept.qkv what attention reads, normed and rotated; `heads` may be kept.qkv.
  void turn_heads(const Call& call, const Kept& kept, void* heads) const;
  void head_gradients(const Call& call, const Kept& kept, const BackwardSpace& space) const;
  NormRows head_rows(const Shape& shape, int64_t heads) const;
  void run(const Call& call) const;
  // Keys and values in a (R, Q) buffer that starts with the queries.
  void* keys(const Shape& shape, void* qkv) const;
  void* values(const Shape& shape, void* qkv) const;
  std::array<Linear, 7> linears() const { return {q_, k_, v_, o_, gate_, up_, down_}; }
  uint64_t bytes(const Shape& shape, int64_t width) const;  // of R rows
  int64_t attended() const { return heads_ * width_; }

  int64_t heads_, kv_heads_, width_, ffn_;
  std::vector<double> frequencies_;  // of the rotary pairs, radians per position
  Norm norm_;
  bool head_norms_;
  Linear q_, k_, v_, o_, gate_, up_, down_;
};

}  // namespace zrt::models
