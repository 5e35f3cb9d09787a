// A small model of plain loops (embedding, linear blocks, softmax head) that exercises programs without any library.
#pragma once
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/model.h"

namespace zrt::testing {

using core::DType;
using models::Call;
using models::Init;
using models::Param;
using models::Shape;

inline float read(const void* data, DType type, int64_t i) {
  return type == DType::f32   ? static_cast<const float*>(data)[i]
         : type == DType::f16 ? core::to_float(static_cast<const core::f16*>(data)[i])
                              : core::to_float(static_cast<const core::bf16*>(data)[i]);
}
inline void write(void* data, DType type, int64_t i, float value) {
  if (type == DType::f32) {
    static_cast<float*>(data)[i] = value;
  } else if (type == DType::f16) {
    static_cast<core::f16*>(data)[i] = core::to_f16(value);
  } else {
    static_cast<core::bf16*>(data)[i] = core::to_bf16(value);
  }
}
inline void add_grad(const Call& call, size_t p, int64_t i, float value) {
  const DType type = call.shape.grad_type;
  write(call.grads[p], type, i, call.accumulate[p] ? read(call.grads[p], type, i) + value : value);
}

// A program with a fault may hand a block anything.
inline void check_id(int32_t id, int64_t vocab) {
  if (id >= vocab) throw core::DataError("id " + std::to_string(id) + " is not in the vocabulary");
}

class ToyBlock : public models::Block {
 public:
  ToyBlock(std::string name, int64_t width, std::vector<Param> params)
      : name_(std::move(name)), width_(width), params_(std::move(params)) {}
  const std::string& name() const override { return name_; }
  const std::vector<Param>& params() const override { return params_; }
  int64_t output_width() const override { return width_; }
  uint64_t saved_bytes(const Shape&) const override { return 0; }
  uint64_t forward_workspace_bytes(const Shape&) const override { return 0; }
  uint64_t backward_workspace_bytes(const Shape&) const override { return 0; }
  bool backward_reads_input() const override { return true; }
  void decode(const Call&) const override {}
  double forward_flops(const Shape&) const override { return 0; }

 protected:
  std::string name_;
  int64_t width_;
  std::vector<Param> params_;
};

// y = s · E[token] with a factor s that depends on the token and is saved.
class ToyEmbedding : public ToyBlock {
 public:
  ToyEmbedding(int64_t vocab, int64_t width)
      : ToyBlock("embed", width, {{"embed.weight", {vocab, width}, Init::normal, 0.3f}}), vocab_(vocab) {}
  uint64_t saved_bytes(const Shape& shape) const override { return static_cast<uint64_t>(shape.rows()) * 4; }
  void forward(const Call& call) const override {
    for (int64_t r = 0; r < call.shape.rows(); ++r) {
      check_id(call.tokens[r] < 0 ? INT32_MAX : call.tokens[r], vocab_);
      const float scale = 1 + 0.25f * static_cast<float>(call.tokens[r] % 3);
      if (call.saved) reinterpret_cast<float*>(call.saved)[r] = scale;
      for (int64_t c = 0; c < width_; ++c) {
        write(call.output, call.shape.type, r * width_ + c,
              scale * read(call.weights[0], call.shape.type, call.tokens[r] * width_ + c));
      }
    }
  }
  void backward(const Call& call) const override {
    const float* scale = reinterpret_cast<const float*>(call.saved);
    for (int64_t v = 0; v < vocab_; ++v) {
      for (int64_t c = 0; c < width_; ++c) {
        float sum = 0;
        for (int64_t r = 0; r < call.shape.rows(); ++r) {
          if (call.tokens[r] == v) sum += scale[r] * read(call.d_output, call.shape.type, r * width_ + c);
        }
        add_grad(call, 0, v * width_ + c, sum);
      }
    }
  }

 private:
  int64_t vocab_;
};

// y = x · W + b. Keeps the first column of x in `saved`, so that losing it changes the result.
class ToyLinear : public ToyBlock {
 public:
  ToyLinear(const std::string& name, int64_t width, const std::string& weight)
      : ToyBlock(name, width,
                 {{weight, {width, width}, Init::normal, 0.4f}, {name + ".bias", {width}, Init::zeros, 0}}) {}
  uint64_t forward_workspace_bytes(const Shape&) const override { return 200; }
  uint64_t saved_bytes(const Shape& shape) const override { return static_cast<uint64_t>(shape.rows()) * 4; }
  void forward(const Call& call) const override {
    const DType type = call.shape.type;
    for (int64_t r = 0; r < call.shape.rows(); ++r) {
      if (call.saved) reinterpret_cast<float*>(call.saved)[r] = read(call.input, type, r * width_);
      for (int64_t c = 0; c < width_; ++c) {
        float sum = read(call.weights[1], type, c);
        for (int64_t k = 0; k < width_; ++k) {
          sum += read(call.input, type, r * width_ + k) * read(call.weights[0], type, k * width_ + c);
        }
        write(call.output, type, r * width_ + c, sum);
      }
    }
  }
  void backward(const Call& call) const override {
    const DType type = call.shape.type;
    const int64_t rows = call.shape.rows();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t k = 0; k < width_; ++k) {
        float sum = 0;
        for (int64_t c = 0; c < width_; ++c) {
          sum += read(call.d_output, type, r * width_ + c) * read(call.weights[0], type, k * width_ + c);
        }
        write(call.d_input, type, r * width_ + k, sum);
      }
    }
    const float* first_column = reinterpret_cast<const float*>(call.saved);
    for (int64_t k = 0; k <= width_; ++k) {
      for (int64_t c = 0; c < width_; ++c) {
        float sum = 0;
        for (int64_t r = 0; r < rows; ++r) {
          const float x = k == 0 ? first_column[r] : k < width_ ? read(call.input, type, r * width_ + k) : 1.0f;
          sum += x * read(call.d_output, type, r * width_ + c);
        }
        add_grad(call, k < width_ ? 0 : 1, k < width_ ? k * width_ + c : c, sum);
      }
    }
  }
};

class ToyHead : public ToyBlock {
 public:
  ToyHead(int64_t vocab, int64_t width, bool tied)
      : ToyBlock("head", width, {{tied ? "embed.weight" : "head.weight", {vocab, width}, Init::normal, 0.3f}}),
        vocab_(vocab) {}
  uint64_t backward_workspace_bytes(const Shape& shape) const override { return workspace(shape); }
  uint64_t forward_workspace_bytes(const Shape& shape) const override {
    return shape.mode == models::Mode::eval ? workspace(shape) : 0;
  }
  void forward(const Call& call) const override {
    if (call.shape.mode == models::Mode::eval) *call.loss = losses(call);
  }
  void backward(const Call& call) const override {
    *call.loss = losses(call);
    const DType type = call.shape.type;
    const int64_t rows = call.shape.rows();
    const float* d = reinterpret_cast<const float*>(call.workspace);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < width_; ++c) {
        float sum = 0;
        for (int64_t v = 0; v < vocab_; ++v) sum += d[r * vocab_ + v] * read(call.weights[0], type, v * width_ + c);
        write(call.d_input, type, r * width_ + c, sum);
      }
    }
    for (int64_t v = 0; v < vocab_; ++v) {
      for (int64_t c = 0; c < width_; ++c) {
        float sum = 0;
        for (int64_t r = 0; r < rows; ++r) sum += d[r * vocab_ + v] * read(call.input, type, r * width_ + c);
        add_grad(call, 0, v * width_ + c, sum);
      }
    }
  }

 private:
  uint64_t workspace(const Shape& shape) const { return static_cast<uint64_t>(shape.rows() * vocab_) * 4; }
  // Leaves the scaled gradient of the logits in the workspace.
  double losses(const Call& call) const {
    double total = 0;
    float* logits = reinterpret_cast<float*>(call.workspace);
    for (int64_t r = 0; r < call.shape.rows(); ++r) {
      float* row = logits + r * vocab_;
      double sum = 0;
      for (int64_t v = 0; v < vocab_; ++v) {
        row[v] = 0;
        for (int64_t c = 0; c < width_; ++c) {
          row[v] += read(call.input, call.shape.type, r * width_ + c) *
                    read(call.weights[0], call.shape.type, v * width_ + c);
        }
        sum += std::exp(static_cast<double>(row[v]));
      }
      const int32_t target = call.targets[r];
      check_id(target, vocab_);
      if (target >= 0) total += std::log(sum) - static_cast<double>(row[target]);
      for (int64_t v = 0; v < vocab_; ++v) {
        const double p = std::exp(static_cast<double>(row[v])) / sum - (v == target ? 1 : 0);
        row[v] = target < 0 ? 0 : static_cast<float>(p) * call.loss_scale;
      }
    }
    return total;
  }
  int64_t vocab_;
};

// `shared`: linear blocks 0 and 2 use one weight.
inline models::Model make_toy(int64_t layers, int64_t width, int64_t vocab, int64_t sequence, bool tied, bool shared) {
  models::Model model;
  model.type = "toy";
  model.hidden = width;
  model.sequence = sequence;
  model.vocab = vocab;
  model.layers = layers;
  model.tied = tied;
  model.blocks.push_back(std::make_unique<ToyEmbedding>(vocab, width));
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = "linear." + std::to_string(i);
    model.blocks.push_back(
        std::make_unique<ToyLinear>(name, width, shared && i == 2 ? "linear.0.weight" : name + ".weight"));
  }
  model.blocks.push_back(std::make_unique<ToyHead>(vocab, width, tied));
  return model;
}

}  // namespace zrt::testing
