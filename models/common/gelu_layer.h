// A layer whose MLP has GELU, with a bias behind each product: GPT-2's and BERT's, whose constructors say what they are
// made of. Its parts, and what each keeps per token of C = hidden elements, with A = C and F = 4C, of which
// tensor-parallel ranks have equal parts:
//   norm_1      means and deviations (fp32)
//   attention   queries, keys and values 3A, log-sum-exp per head (fp32), attention output A
//   norm_2      the residual stream after attention C, means and deviations (fp32)
//   hidden      the input of GELU F
//   projection  nothing
//   output      nothing
// Norm outputs, GELU output and probabilities are computed again for backward; with less kept, so is the input of GELU,
// which costs one product.
#pragma once
#include "models/common/dropout_site.h"
#include "models/common/layer.h"
#include "models/common/product.h"
#include "models/kernels/attention.h"

namespace zrt::models {

class GeluLayer : public Layer {
 public:
  uint64_t saved_bytes(const Shape& shape, size_t part) const override;
  uint64_t held_bytes(const Shape& shape, size_t part) const override;
  uint64_t forward_workspace_bytes(const Shape& shape) const override;
  uint64_t backward_workspace_bytes(const Shape& shape, Parts parts, Half half) const override;
  void forward(const Call& call) const override;
  void backward(const Call& call) const override;
  using Block::forward_flops;
  double forward_flops(const Shape& shape, Parts parts) const override;
  double attention_flops(const Shape& shape, Parts parts) const override;
  std::vector<GemmSpec> products(const Shape& shape) const override;

 protected:
  // heads: of the layer.
  GeluLayer(const BlockSizes& sizes, std::string name, const Norm& norm, int64_t heads, int64_t index,
            const AttentionPattern& pattern);
  AttentionShape attention_shape(const Shape& shape, int tensor_rank = 0) const;

  int64_t attended_;             // elements of a token that its heads attend with
  std::vector<Product> strips_;  // queries, keys and values, side by side
  Product attention_out_, mlp_in_, mlp_out_;

 private:
  // What backward needs; outside training it lies in the workspace.
  struct Kept {
    Stream stream;
    float* lse;  // null outside training
    void *qkv, *attention, *hidden;
  };
  struct ForwardSpace {
    std::byte* scratch;    // of the matrix products
    void* normed;          // R C, output of a norm; null where that is a port
    std::byte* attention;  // workspace of attention
    void* gelu;            // R F, over the attention's, and over `normed` where nothing reads that behind GELU's input
  };
  struct BackwardSpace {
    std::byte* scratch;
    void* narrow;                        // R C, or R A where ports hold what is as wide as C
    void *hidden, *qkv;                  // R F and R 3A: gradients, one over the other where nothing is held
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
  void attend(const Call& call, const Kept& kept, const ForwardSpace& space, const void* normed, void* to,
              const void* add) const;
  void backward_mlp(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_projected,
                    void* d_normed) const;
  void backward_attention(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_attended,
                          void* d_normed) const;
  Dropout dropped(const Call& call, DropoutSite site) const { return dropout(call, layer_dropout_site(index_, site)); }
  std::vector<Linear> linears() const;

  int64_t heads_, all_heads_;  // of this rank and of the layer
  int64_t ffn_, index_;        // ffn: elements of a token in its part of the MLP
  AttentionPattern pattern_;
};

}  // namespace zrt::models
