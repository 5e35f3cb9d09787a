// What transformer layers share: a norm in front of attention and one in front of the MLP, and the residual stream
// that both are added to. Parts and what of them lies between ranks that share a layer:
//   norm_1 → attention → norm_2 → hidden → projection → output
// Where these ranks share rows, too, norms and what is added to the residual stream are computed of a rank's own rows
// alone; ports have room for all rows, each rank's at their place. The output of a norm is then made again for
// backward, and brought together again, in front of the part that reads it (Call::again, Call::ports).
// Attention, hidden and projection have products, whose weights' gradients may come later.
//
// What attention and the MLP make is added to what their norm read (pre-LN), or to what it made (post-LN, where a norm
// stands behind each sum: a layer begins with the one behind the layer before it, or behind the embedding).
#pragma once
#include <functional>
#include <optional>

#include "models/bump_allocator.h"
#include "models/common/norm.h"
#include "models/common/transformer_block.h"
#include "models/kernels/attention_pattern.h"

namespace zrt::models {

class Layer : public TransformerBlock {
 public:
  const Anatomy& anatomy() const override { return anatomy_; }
  bool backward_reads_input() const override { return true; }
  void decode(const Call& call) const override { forward(call); }

 protected:
  enum Part : size_t { norm_1, attention, norm_2, hidden, projection, output };
  enum Port : size_t { normed_1, attended, normed_2, projected };

  Layer(const BlockSizes& sizes, std::string name, const Norm& norm);

  // What norms and residual stream leave for backward, in the parts norm_1 and norm_2.
  struct Stream {
    Norm::Statistics first_norm{}, second_norm{};  // null outside training
    void* residual = nullptr;                      // between attention and MLP
  };
  void keep(Stream& stream, size_t part, BumpAllocator& layout, const Shape& shape) const;

  struct Forward {
    Stream stream;
    void* normed;  // R C, output of a norm, where that is no port
    Dropout after_attention, after_mlp;
    // From a norm's output, `to` += or = what the projection makes; add: what it adds, or null.
    std::function<void(const void* normed, void* to, const void* add)> attend;
    std::function<void(const void* normed)> hide;
    std::function<void(void* to, const void* add)> project;
  };
  void run(const Call& call, Forward forward) const;

  struct Backward {
    Stream stream;
    std::byte* scratch;                    // of norms
    void* d_normed;                        // R C, gradient of a norm's output, where that is no port
    void *of_attention, *of_mlp;           // R C, gradients behind dropout, where these are no ports
    void *held_attended, *held_projected;  // … that the input half leaves for the weight half; else null
    Dropout after_attention, after_mlp;    // as forward's
    // Of the half that the call asks for.
    std::function<void(const void* d_projected, void* d_normed)> mlp;
    std::function<void(const void* d_attended, void* d_normed)> attend;
  };
  void run(const Call& call, const Backward& backward) const;

  // Calls found(part, layout) for the parts of a half, with where they hold what they do.
  template <class Found>
  static void find_held(const Call& call, const Found& found) {
    for (size_t part = norm_1; part <= output && call.half != Half::both; ++part) {
      if (call.parts.has(part)) found(part, BumpAllocator(call.held_of(part)));
    }
  }

  // Of attention over so many columns of queries.
  static double heads_flops(const Shape& shape, int64_t columns, const AttentionPattern& pattern) {
    const bool half = pattern.causal && shape.mode != Mode::decode;
    const double keys = static_cast<double>(shape.T) * pattern.share(shape.T) / (half ? 2 : 1);
    return 2 * 2 * static_cast<double>(shape.rows()) * keys * static_cast<double>(columns);
  }

  // The output of a norm, for the gradients of what reads it: brought by a port; or made again in `space`, where the
  // weight half finds it.
  const void* normed_again(const Call& call, Port port, const Stream& stream, void* space) const;

  uint64_t bytes(const Shape& shape, int64_t width) const {  // of all rows
    return static_cast<uint64_t>(shape.rows() * width) * core::dtype_size(shape.type);
  }
  uint64_t own_bytes(const Shape& shape) const {  // of a rank's rows of the residual stream
    return static_cast<uint64_t>(row_share(shape)) * row_bytes(shape);
  }

  // Among params_, whose first are those of the first norm.
  size_t first_norm_weight_ = 0, second_norm_weight_ = 0;
  Norm norm_;
  bool post_norm_ = false;
  std::optional<uint32_t> first_norm_site_;  // of dropout behind the first norm; nothing: there is none

 private:
  // The output of the first norm for own rows.
  void first_norm(const Call& call, void* y, const Norm::Statistics& statistics) const;
  // d += the gradient of the residual stream, for own rows.
  void add_stream(const Call& call, const void* d_stream, void* d) const;
  int64_t own_elements(const Call& call) const { return own_rows(call).count * sizes_.hidden; }
  // The gradient behind a dropout: in `to`, or where that is null in `buffer`, or `d` itself where nothing is dropped.
  const void* undrop(const Call& call, const Dropout& dropout, const void* d, void* to, void* buffer) const;

  Anatomy anatomy_;
};

}  // namespace zrt::models
