// The blocks of every model share name, parameters, and checks of shapes and calls.
#pragma once
#include <string>
#include <vector>

#include "models/adapters.h"
#include "models/block.h"
#include "models/degrees.h"
#include "models/heads.h"
#include "models/kernels/kernels.h"

namespace zrt::models {

struct BlockSizes {
  int64_t hidden = 0, sequence = 0, vocab = 0;
  float dropout = 0;
  Degrees degrees = {};
  Adapters adapters = {};
  int64_t part(int64_t extent) const {  // a rank's, with padding
    return (extent + degrees.tensor - 1) / degrees.tensor;
  }
};

class TransformerBlock : public Block {
 public:
  TransformerBlock(const BlockSizes& sizes, std::string name) : sizes_(sizes), name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  const std::vector<Param>& params() const override { return params_; }
  int64_t output_width() const override { return sizes_.hidden; }
  bool draws_numbers() const override { return sizes_.dropout > 0 || sizes_.adapters.dropout > 0; }

 protected:
  // Throws core::Error when the model cannot run the shape: an unsupported type or more positions than it has.
  void check_shape(const Shape& shape) const;
  // Throws core::DataError when a token lies outside lowest … vocabulary - 1.
  void check_tokens(const int32_t* tokens, int64_t count, int32_t lowest) const;
  Dropout dropout(const Call& call, uint32_t site) const;  // off outside training
  // True where what a product adds to the residual stream is best added by the product itself: without dropout, where
  // the back end's products can.
  bool products_add(const Shape& shape) const {
    return products_fuse() && (sizes_.dropout == 0 || shape.mode != Mode::train);
  }
  // Rows of the residual stream that a rank has room for, and those that are its own; the last ranks may have fewer.
  bool shares_rows() const { return sizes_.degrees.shares_rows(); }
  int64_t row_share(const Shape& shape) const { return shares_rows() ? sizes_.part(shape.rows()) : shape.rows(); }
  Rows own_rows(const Call& call) const;
  std::byte* own_place(const Call& call, void* port) const {  // where these lie in a port; null where there is none
    const uint64_t before = static_cast<uint64_t>(own_rows(call).first) * row_bytes(call.shape);
    return port == nullptr ? nullptr : static_cast<std::byte*>(port) + before;
  }
  uint64_t first_element(const Call& call) const;  // dropout index of its own rows' first element
  uint64_t row_bytes(const Shape& shape) const {   // of the residual stream
    return static_cast<uint64_t>(sizes_.hidden) * core::dtype_size(shape.type);
  }

  BlockSizes sizes_;
  std::string name_;
  std::vector<Param> params_;
};

// The place for the gradient of params()[index]; without data nobody wants it.
inline GradTarget grad_target(const Call& call, size_t index) {
  return {call.grads[index], call.shape.grad_type, call.accumulate[index] != 0};
}

// Throws ConfigError "model.KEY is …" for sizes below 1.
void check_positive(const char* key, int64_t value);
// Throws ConfigError when `heads` does not divide `hidden`.
void check_heads(int64_t heads, int64_t hidden);
// Throws ConfigError when `tensor` ranks cannot share the heads.
void check_tensor(int tensor, const std::vector<Heads>& all);

}  // namespace zrt::models
