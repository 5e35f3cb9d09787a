// BERT's head has this between its first norm and the output weights: a linear layer as wide as the model, GELU by the
// error function, and a norm (Devlin et al., 2019, as published). It is computed row by row, by every rank for its own
// rows.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/common/linear.h"
#include "models/common/norm.h"

namespace zrt::models {

class HeadTransform {
 public:
  struct Names {
    std::string dense, norm;
  };
  explicit HeadTransform(const Norm& kind) : dense_{kind.width, kind.width, Linear::Stored::out_in, true}, norm_(kind) {
    dense_.erf = true;
  }

  void add_params(std::vector<Param>& params, const Names& names, bool summed);

  struct Saved {
    Norm::Statistics statistics;
    void* dense;  // (rows, C), input of GELU
  };
  Saved saved_in(BumpAllocator& layout, const Shape& shape, int64_t rows) const;
  // Workspace of the products of `rows` rows.
  uint64_t forward_scratch(const Shape& shape, int64_t rows) const { return dense_.forward_scratch(of(shape, rows)); }
  uint64_t backward_scratch(const Shape& shape, int64_t rows) const { return dense_.backward_scratch(of(shape, rows)); }
  double flops(int64_t rows) const;
  std::vector<GemmSpec> products(const Shape& shape) const { return dense_.products(shape); }

  // x (rows, C), in place.
  void forward(const Call& call, int64_t rows, void* x, const Saved& saved, std::byte* scratch) const;
  // d (rows, C) is the gradient of the output and overwritten; that of the input comes to `buffer`, where make_input
  // puts the input again in between.
  void backward(const Call& call, int64_t rows, const Saved& saved, void* d, void* buffer,
                const std::function<void(void*)>& make_input, std::byte* scratch) const;

 private:
  static Shape of(const Shape& shape, int64_t rows) {
    Shape own = shape;
    own.B = rows, own.T = 1, own.fp8 = false;
    return own;
  }

  Linear dense_;
  Norm norm_;
  size_t dense_weight_ = 0, norm_weight_ = 0;
};

}  // namespace zrt::models
