// A transformer layer: a norm in front of attention and one in front of the MLP, and the residual stream that both are
// added to. A model says in a LayerForm what its layers are made of. Parts and what of them lies between ranks that
// share a layer:
//   norm_1 → attention → norm_2 → [route →] hidden → projection → [combine →] output
// (in brackets: of an Mlp with ports).
// In training norm_1 keeps the statistics of its norm (fp32), attention what Attention keeps, norm_2 the residual
// stream after attention and the statistics of its norm, and hidden what the Mlp keeps. Norms' outputs are computed
// again for backward, unless Shape::keeps_outputs says that norm_1 and norm_2 keep them; with less kept, so is what the
// part hidden makes.
//
// Where these ranks share rows, too, norms and what is added to the residual stream are computed of a rank's own rows
// alone; ports have room for all rows, each rank's at their place. The output of a norm is then always made again for
// backward, and brought together again, in front of the part that reads it (Call::again, Call::ports).
// Attention, hidden and projection have products, whose weights' gradients may come later.
//
// A layer may have norms behind attention and the MLP, too, in front of the residual stream (Gemma 2). norm_2 begins
// with the one, of what ranks have brought together, and keeps what that read and its statistics; output with the
// other.
//
// What attention and the MLP make is added to what their norm read (pre-LN), or to what it made (post-LN, where a norm
// stands behind each sum: a layer begins with the one behind the layer before it, or behind the embedding).
#pragma once
#include "models/common/attention.h"
#include "models/common/dropout_site.h"
#include "models/common/layer_form.h"
#include "models/common/transformer_block.h"

namespace zrt::models {

class Layer final : public TransformerBlock {
 public:
  explicit Layer(LayerForm form);
  const Anatomy& anatomy() const override { return anatomy_; }
  bool backward_reads_input() const override { return true; }
  std::optional<size_t> routing_part() const override {
    const auto part = mlp_->routing_part();
    return part ? std::optional<size_t>(number_of(*part)) : std::nullopt;
  }
  int64_t experts() const override { return mlp_->experts(); }
  int64_t port_rows(size_t port, const Shape& shape) const override {
    return anatomy_.ports[port].seam.delivers() ? mlp_->port_rows(shape) : shape.rows();
  }
  uint64_t saved_bytes(const Shape& shape, size_t part) const override;
  uint64_t held_bytes(const Shape& shape, size_t part) const override;
  uint64_t forward_workspace_bytes(const Shape& shape) const override;
  uint64_t backward_workspace_bytes(const Shape& shape, Parts parts, Half half) const override;
  uint64_t cache_bytes(const Shape& shape) const override;
  void forward(const Call& call) const override;
  void backward(const Call& call) const override;
  void decode(const Call& call) const override;  // throws core::Error where tokens see those behind them
  using Block::forward_flops;
  double forward_flops(const Shape& shape, Parts parts) const override;
  double attention_flops(const Shape& shape, Parts parts) const override;
  Scores scores(const Shape& shape) const override;
  std::vector<GemmSpec> products(const Shape& shape) const override;

 private:
  enum Part : size_t { norm_1, attention, norm_2 };
  enum Port : size_t { normed_1, attended, normed_2 };
  static constexpr size_t no_part = 255;  // which no run of parts has
  size_t number_of(MlpPart part) const {
    return part == MlpPart::route     ? route
           : part == MlpPart::hidden  ? hidden
           : part == MlpPart::combine ? combine
                                      : projection;
  }
  Anatomy make_anatomy() const;

  struct Kept {
    Norm::Statistics first_norm, second_norm;  // null outside training
    void* residual;                            // between attention and MLP
    Attention::Kept attention;
    std::byte *routed, *mlp;
    // Norms behind read these: what attention and the MLP made, own rows.
    void *from_attention, *from_mlp;
    Norm::Statistics attention_norm, mlp_norm;
    void *first_normed, *second_normed;  // outputs of the norms; null where they are made again
  };
  struct ForwardSpace {
    Attention::Forward attention;
    std::byte *mlp, *scratch;  // scratch: of the matrix products
    void* normed;              // R C, output of a norm, where that is no port
    void* behind;              // own rows: output of the MLP's norm behind
  };
  struct BackwardSpace {
    Attention::Backward attention;
    std::byte *route, *hidden, *projection, *scratch;  // the MLP's; scratch: of products and norms
    void *first_normed, *second_normed;                // R C each: outputs of norms, for products' weights
    void* d_normed;                                    // R C, gradient of a norm's output, where that is no port
    void *of_attention, *of_mlp;                       // R C, gradients behind dropout, where these are no ports
    void *held_attended, *held_projected;        // those that the input half leaves for the weight half; else null
    float *held_attention_norm, *held_mlp_norm;  // gradients of norms behind, alike
  };

  uint64_t own_bytes(const Shape& shape) const {  // of a rank's rows of the residual stream
    return static_cast<uint64_t>(row_share(shape)) * row_bytes(shape);
  }
  uint64_t room(const Shape& shape) const {  // of all rows, which ports have where ranks share them
    return shares_rows() ? 0 : bytes_of_rows(shape, sizes_.hidden);
  }
  // Lays out what a part keeps, in training.
  void keep(Kept& kept, size_t part, BumpAllocator& layout, const Shape& shape) const;
  Kept kept_in(const Call& call) const;
  Kept kept_in_workspace(BumpAllocator& layout, const Shape& shape) const;
  // Outside training `kept` is laid out, too.
  ForwardSpace forward_space(BumpAllocator& layout, const Shape& shape, Kept& kept) const;
  BackwardSpace backward_space(BumpAllocator& layout, const Shape& shape, Parts parts, Half half) const;
  void hold(BackwardSpace& space, size_t part, BumpAllocator& layout, const Shape& shape) const;

  void backward_inputs(const Call& call, const Kept& kept, const BackwardSpace& space) const;  // and with both halves
  void backward_weights(const Call& call, const BackwardSpace& space) const;
  void backward_attention(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_attended,
                          void* d_normed) const;
  void backward_mlp(const Call& call, const Kept& kept, const BackwardSpace& space, const void* d_projected,
                    void* d_normed) const;

  // Norms behind, for own rows: what lies in a port or inside the run is kept, and `y` its norm.
  void norm_behind(const Call& call, size_t weight, const void* made, void* kept, void* y,
                   const Norm::Statistics& statistics) const;
  // The gradient of what such a norm read, where undrop() leaves that behind dropout.
  const void* norm_behind_backward(const Call& call, size_t weight, const void* kept, const void* dy,
                                   const Norm::Statistics& statistics, void* to, const BackwardSpace& space,
                                   float* held) const;
  // The output of the first norm for own rows.
  void first_norm(const Call& call, void* y, const Norm::Statistics& statistics) const;
  bool keeps_normed(const Shape& shape) const {
    return shape.mode == Mode::train && shape.keeps_outputs && !shares_rows();
  }
  // The output of a norm, for the gradients of what reads it: kept, or brought by a port, or made again in `space`. The
  // weight half finds it there in any case.
  const void* normed_again(const Call& call, size_t port, const Kept& kept, void* space) const;
  // d += the gradient of the residual stream, for own rows.
  void add_stream(const Call& call, const void* d_stream, void* d) const;
  int64_t own_elements(const Call& call) const { return own_rows(call).count * sizes_.hidden; }
  Dropout dropped(const Call& call, DropoutSite site) const;
  // The gradient behind a dropout: in `to`, or where that is null in `buffer`, or `d` itself where nothing is dropped.
  const void* undrop(const Call& call, const Dropout& dropout, const void* d, void* to, void* buffer) const;
  float* held_of(const Call& call, size_t part) const { return reinterpret_cast<float*>(call.held_of(part)); }

  size_t first_norm_weight_, second_norm_weight_;
  Norm norm_;
  Attention attention_;
  std::unique_ptr<const Mlp> mlp_;
  bool exchanges_;                                    // the MLP has ports
  size_t route, hidden, projection, combine, output;  // parts behind norm_2
  size_t projected;                                   // the last port
  bool post_norm_;
  std::optional<LayerForm::NormsBehind> norms_behind_;
  std::optional<int64_t> dropout_number_;
  std::optional<uint32_t> first_norm_site_;
  Anatomy anatomy_;
};

}  // namespace zrt::models
