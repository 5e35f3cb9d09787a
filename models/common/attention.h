// Attention of a layer, behind its first norm: products that make queries, keys and values, side by side in a row of
// Q = A + 2 · kv_heads · width elements; heads of queries, which may share those of keys and values, with A = heads ·
// width elements; and a product of what they make. A model fills in what it has of it. In training it keeps per token
// the log-sum-exp of each head (fp32), queries, keys and values Q, and the output of the heads A; where heads have
// norms, Q as the products made it, and the statistics of these norms; with Shape::keeps_outputs also what attention
// reads of that, which else is made again. Probabilities are computed again for backward.
#pragma once
#include <optional>
#include <vector>

#include "models/common/head_turning.h"
#include "models/common/product.h"
#include "models/common/transformer_block.h"

namespace zrt::models {

struct Attention {
  Attention() = default;
  // heads and kv_heads: of all ranks.
  Attention(const BlockSizes& sizes, int64_t heads, int64_t kv_heads, int64_t width, const AttentionPattern& pattern);

  int64_t heads = 0, kv_heads = 0, width = 0;  // of this rank; width of a head
  int64_t all_heads = 0;                       // of queries, of all ranks
  float dropout = 0;                           // of probabilities
  AttentionPattern pattern = {};
  double scale_width = 0;       // AttentionShape's
  float cap = 0;                // AttentionShape's
  std::vector<Product> strips;  // side by side in a row, Linear::joined but for the first
  Product output = {};
  std::optional<HeadTurning> turning = {};  // nothing: attention reads what the products made

  struct Kept {
    float* lse;  // null outside training
    HeadTurning::Statistics norms;
    void *qkv, *attended;
    void* turned;  // R Q, what attention read; null: it is made again, or is qkv
  };
  struct Forward {
    std::byte* scratch;    // of the products
    void* turned;          // R Q, what attention reads; null: that is turned in place
    std::byte* workspace;  // of attention
  };
  struct Backward {
    std::byte* scratch;
    void* d_attended;      // R A, gradient of the heads' output
    void* d_qkv;           // R Q
    void* turned;          // as forward's
    std::byte* workspace;  // of attention
    void* attended;        // R A, held for the weight half
    float* of_norms;       // gradients of the weights of two norms, held like it
  };

  int64_t attended_width() const { return heads * width; }
  uint64_t qkv_bytes(const Shape& shape) const { return bytes_of_rows(shape, shape_of(shape).row()); }
  AttentionShape shape_of(const Shape& shape, int tensor_rank = 0) const;
  AttentionShape shape_of(const Call& call) const;
  std::vector<Linear> linears() const;
  double flops(const Shape& shape) const;  // multiply-adds in which no weight takes part

  // Outside training it keeps nothing longer than a forward.
  Kept kept_in(BumpAllocator& layout, const Shape& shape) const;
  // Norms are not turned in place in training: backward needs what they read.
  bool turns_apart(const Shape& shape) const { return turning && turning->norms && shape.mode == Mode::train; }
  bool keeps_turned(const Shape& shape) const { return turns_apart(shape) && shape.keeps_outputs; }
  uint64_t turned_bytes(const Shape& shape) const;  // of the workspace
  uint64_t forward_workspace(const Shape& shape) const;
  // `to` = what attention makes of a norm's output [+ add], which may be null. dropped: the site of probabilities.
  void forward(const Call& call, const Kept& kept, const Forward& space, const Dropout& dropped, const void* normed,
               void* to, const void* add) const;

  uint64_t backward_scratch(const Shape& shape) const;  // but of products
  // A whole backward and an input half need it.
  void workspace_in(Backward& space, BumpAllocator& layout, const Shape& shape) const;
  // It lives between the halves.
  void hold(Backward& space, BumpAllocator& layout, const Shape& shape) const;
  // Down to d_qkv; and from there on down, with the norm's output. Both are called in every half; d_normed may be
  // `normed`.
  void backward_heads(const Call& call, const Kept& kept, const Backward& space, const Dropout& dropped,
                      const void* d_output) const;
  void backward_strips(const Call& call, const Backward& space, const void* normed, void* d_normed) const;
};

}  // namespace zrt::models
