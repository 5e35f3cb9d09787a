// The head as a block; head.h makes it.
#pragma once
#include <algorithm>
#include <optional>
#include <vector>

#include "core/device.h"
#include "models/common/counted_rows.h"
#include "models/common/head.h"
#include "models/kernels/gemm.h"
#include "models/kernels/scaling.h"

namespace zrt::models {

inline constexpr size_t head_norm_weight = 0;
// Rows of logits held at a time: on a GPU many, because every chunk reads and writes the whole weight gradient.
inline int64_t most_chunk_rows() {
  return core::place().device == core::DeviceKind::cuda ? 8192 : 512;
}
// Rows of the weight gradient made at a time; a GPU makes all of them, in few large products.
inline int64_t vocab_tile(int64_t V) {
  return core::place().device == core::DeviceKind::cuda ? V : 4096;
}

// Parts: the norm; logits, of which each rank has those of its part of the vocabulary, and what it tells the others of
// them; the loss, and in backward the gradients. Ranks that share the vocabulary hold their logits of all rows at a
// time. Where they share rows, too, each has the norm of its own and keeps it; for logits, and for backward, these are
// brought together.
class Head : public TransformerBlock {
 public:
  Head(const BlockSizes& sizes, const HeadParts& parts);

  const Anatomy& anatomy() const override { return anatomy_; }
  bool reads_positions() const override { return false; }
  bool backward_reads_input() const override { return true; }
  double forward_flops(const Shape& shape, Parts run) const override;

  // The products in one piece, where the block itself works in chunks.
  std::vector<GemmSpec> products(const Shape& shape) const override;

  uint64_t saved_bytes(const Shape& shape, size_t part) const override;
  uint64_t forward_workspace_bytes(const Shape& shape) const override;
  uint64_t backward_workspace_bytes(const Shape& shape, Parts, Half) const override;

  uint64_t held_bytes(const Shape& shape, size_t part) const override;

  void forward(const Call& call) const override;
  void backward(const Call& call) const override;
  void decode(const Call& call) const override;

 private:
  enum Part : uint8_t { normalize, logits, loss };
  enum Port : size_t { normed_port, logits_port, partials_port };

  struct Saved {
    Norm::Statistics statistics;
    HeadTransform::Saved transform;
    void* normed;  // R C, of own rows: what logits are made of
  };
  struct Space {
    std::byte* scratch;
    HeadTransform::Saved transform;  // outside training
    void* transformed;               // R C, of own rows: on the way back through the transform
    float* bias;                     // V: gradient of the output's bias
    void* normed;                    // R C: output of the norm, in backward its gradient; where these are no ports
    void* logits;                    // (chunk, V), rows row_length() apart
    double* losses;                  // R, and B of the order of runs
    OrderHead::Space order;
    uint16_t* low;  // (V, C), where a tile has less than that
    float* tile;    // (vocab_tile, C)
  };

  // The weight half of logits needs these: what logits were made of, where no port brings it, and what they have no
  // port for.
  struct Held {
    void *normed, *d_order;  // R C, (B, 2)
  };
  Saved saved_in(BumpAllocator& layout, const Shape& shape) const;
  Held held_in(BumpAllocator& layout, const Shape& shape) const;
  // Makes what logits are made of, for own rows.
  void make_normed(const Call& call, const Norm::Statistics& statistics, const HeadTransform::Saved& transform,
                   void* normed, const Space& space) const;
  void backward_norm(const Call& call, const Saved& saved, const Space& space, void* d) const;
  // Calls body(count) for every number of rows that some rank has of its own.
  template <class Body>
  void for_own_counts(const Shape& shape, const Body& body) const {
    const int64_t all = shape.rows(), share = row_share(shape);
    body(std::min(share, all));
    if (all % share != 0) body(all % share);
  }
  Space forward_space(BumpAllocator& layout, const Shape& shape) const;
  Space backward_space(BumpAllocator& layout, const Shape& shape) const;

  // True where the weight gradient, of so many rows, is a rounded sum of several chunks.
  bool splits_sum(const Shape& shape, int64_t rows) const {
    return shape.grad_type == DType::bf16 && rows > chunk_rows(shape);
  }

  bool sums_in_tile() const { return core::place().device == core::DeviceKind::cuda; }

  // The length of the rows that ranks share; any back end reads them fast.
  int64_t shared_row() const { return (vocab_ + 63) / 64 * 64; }
  int64_t row_length() const { return sizes_.degrees.tensor > 1 ? shared_row() : product_stride(vocab_); }
  // Rows of logits held at a time.
  int64_t chunk_rows(const Shape& shape) const { return sizes_.degrees.tensor > 1 ? shape.rows() : most_chunk_rows(); }
  // Finds the rows that a call's products run over: all where `may` is false.
  CountedRows counted_rows(const Call& call, bool may) const {
    const bool picks = may && core::place().device == core::DeviceKind::cpu;
    return picks ? CountedRows(call.targets, call.shape.rows()) : CountedRows(call.shape.rows());
  }
  // Calls body(begin, count, total) for products of all sizes that there may be: chunks of all rows and of fewer.
  template <class Body>
  void for_chunk_sizes(const Shape& shape, const Body& body) const;
  // The tokens of this rank.
  int64_t first_token(const Call& call) const { return call.tensor_rank * vocab_; }
  int64_t tokens(const Call& call) const { return std::clamp<int64_t>(sizes_.vocab - first_token(call), 0, vocab_); }
  void make_logits(const Call& call, const Space& space, const void* normed, void* to, void* partials) const;
  void finish_loss(const Call& call, const Space& space, void* from, const void* partials, float gradient_scale) const;
  void backward_whole(const Call& call, const Space& space, void* all_normed, void* d_normed) const;

  // Decoding gives its logits away, dense and in fp32.
  GemmSpec logits_spec(const Shape& shape, int64_t rows) const {
    const int64_t V = vocab_, C = sizes_.hidden;
    const bool given = shape.mode == Mode::decode;
    const DType result = given ? DType::f32 : shape.type;
    return {rows, V, C, false, true, C, C, given ? V : row_length(), shape.type, shape.type, result, has_bias()};
  }
  bool has_bias() const { return output_bias_ > 0; }
  const void* bias_of(const Call& call) const { return has_bias() ? call.weights[output_bias_] : nullptr; }
  int64_t losses(const Shape& shape) const { return shape.rows() + (order_ ? shape.B : 0); }
  // += the sum of `rows` rows of gradients of logits, of `all`; written to the gradient itself when all are in it.
  void add_bias_gradient(const Call& call, const Space& space, const void* d, const Rows& chunk, int64_t all) const;
  GemmSpec input_spec(const Shape& shape, int64_t rows) const {
    const int64_t V = vocab_, C = sizes_.hidden;
    return {rows, C, V, false, false, row_length(), C, C, shape.type, shape.type, shape.type, false, false, 1};
  }
  // Rows `tokens` of the weight gradient from `rows` rows of logits.
  GemmSpec weight_spec(const Shape& shape, int64_t tokens, int64_t rows, DType result, bool accumulate) const {
    const int64_t C = sizes_.hidden;
    return {tokens, C, rows, true, false, row_length(), C, C, shape.type, shape.type, result, false, accumulate, 1};
  }
  void add_weight_gradient(const Call& call, const Space& space, const Rows& chunk, int64_t all,
                           const void* normed) const;

  // Logits that products made, in `rows` rows, become capped ones.
  void cap(const Shape& shape, void* of, int64_t rows) const {
    if (cap_ > 0) soft_cap(shape.type, of, cap_, rows * row_length());
  }

  int64_t vocab_;  // of this rank, with padding
  float cap_;
  Anatomy anatomy_;
  Norm norm_;
  std::optional<HeadTransform> transform_;
  std::optional<OrderHead> order_;
  size_t output_weight_ = 0, output_bias_ = 0;
};

// Calls body(begin, count) on pieces of at most `piece` of `total`.
template <class Body>
void in_pieces(int64_t total, int64_t piece, const Body& body) {
  for (int64_t begin = 0; begin < total; begin += piece) body(begin, std::min(piece, total - begin));
}

template <class Body>
void Head::for_chunk_sizes(const Shape& shape, const Body& body) const {
  in_pieces(shape.rows(), chunk_rows(shape), [&](int64_t begin, int64_t rows) { body(begin, rows, shape.rows()); });
  if (sizes_.degrees.tensor > 1 || core::place().device != core::DeviceKind::cpu) return;
  const int64_t most = std::min(chunk_rows(shape), shape.rows() - 1);
  for (int64_t rows = CountedRows::granule; rows <= most; rows += CountedRows::granule) {
    body(0, rows, rows);
    if (chunk_rows(shape) + rows < shape.rows()) body(chunk_rows(shape), rows, chunk_rows(shape) + rows);
  }
}

inline std::byte* offset(void* data, uint64_t bytes) {
  return static_cast<std::byte*>(data) + bytes;
}

}  // namespace zrt::models
