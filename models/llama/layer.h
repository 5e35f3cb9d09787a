// A Llama layer (Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023): RMS norm before
// attention and before the MLP, rotary positions, heads of queries sharing heads of keys and values, SwiGLU, no biases.
// Parameter names and shapes are Hugging Face's; linear weights are stored (out, in), rotary pairs are the halves of a
// head. With LlamaConfig::head_norms each head's queries and keys have an RMS norm in front of the rotation (Henry et
// al., "Query-Key Normalization for Transformers", 2020). Buffers hold, per token of C = hidden, A = heads · head
// width, Q = A + 2 · kv_heads · head width and F = ffn elements, of
// which tensor-parallel ranks have equal parts. Its parts, and what each keeps:
//   norm_1      deviations (fp32)
//   attention   queries, keys and values Q, rotated or, where they are normed, as the products made them, with the
//               deviations of these norms; log-sum-exp per head (fp32); attention output A
//   norm_2      the residual stream after attention C, deviations (fp32)
//   hidden      gate F, up F
//   projection  nothing
//   output      nothing
// Norm outputs, SwiGLU and probabilities are computed again for backward; with less kept, so are gate and up, which
// cost one product each.
#pragma once
#include <array>

#include "models/common/layer.h"
#include "models/common/linear.h"
#include "models/kernels/attention.h"
#include "models/model.h"

namespace zrt::models {

class LlamaLayer : public Layer {
 public:
  LlamaLayer(const LlamaConfig& config, int64_t index);

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
    Stream stream;
    float *lse, *q_rstd, *k_rstd;  // null outside training, the latter two also where heads have no norms
    void *qkv, *attention, *gate, *up;
  };
  struct ForwardSpace {
    std::byte* scratch;    // of the matrix products
    void* normed;          // R C, output of a norm; null where that is a port
    void* heads;           // R Q, what attention reads: over `normed`, or Kept::qkv
    std::byte* attention;  // workspace of attention
    void* hidden;          // R F, output of SwiGLU, over the two above
  };
  struct BackwardSpace {
    std::byte* scratch;
    void* narrow;                        // R C or R A; the former where no ports hold it
    void *gate, *up;                     // R F each: gradients
    void* hidden;                        // R F, output of SwiGLU, where `up` comes to lie or that is held
    void* qkv;                           // R Q: gradient, over `gate`
    void* heads;                         // R Q: as forward's, or null
    std::byte* attention;                // over `gate` and `up`
    void *projected, *attended;          // R C each: gradients, held for the weight half
    void *first_normed, *second_normed;  // R C each: outputs of norms, for products' weights
    void* from_heads;                    // R A: attention's output, held for the weight half
    float* of_head_norms;                // gradients of the weights of two, held like it
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
  void rotate(const Call& call, bool backward, void* qkv) const;
  // From kept.qkv what attention reads, normed and rotated; `heads` may be kept.qkv.
  void turn_heads(const Call& call, const Kept& kept, void* heads) const;
  void head_gradients(const Call& call, const Kept& kept, const BackwardSpace& space) const;
  NormRows head_rows(const Shape& shape, int64_t heads) const;
  void attend(const Call& call, const Kept& kept, const ForwardSpace& space, const void* normed, void* to,
              const void* add) const;
  void backward_mlp(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_projected,
                    void* d_normed) const;
  void backward_attention(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_attended,
                          void* d_normed) const;
  // Keys and values in a (R, Q) buffer that starts with the queries.
  void* keys(const Shape& shape, void* qkv) const;
  void* values(const Shape& shape, void* qkv) const;
  std::array<Linear, 7> linears() const { return {q_, k_, v_, o_, gate_, up_, down_}; }
  int64_t attended_width() const { return heads_ * width_; }

  int64_t heads_, kv_heads_, width_, ffn_;  // of this rank
  std::vector<double> frequencies_;         // of the rotary pairs, radians per position
  bool head_norms_;
  AttentionPattern pattern_;
  Linear q_, k_, v_, o_, gate_, up_, down_;
};

}  // namespace zrt::models
