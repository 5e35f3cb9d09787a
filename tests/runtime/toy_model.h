// A small model of plain loops (embedding, linear blocks, softmax head) that exercises programs without any library,
// on the CPU and on a GPU.
#pragma once
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/error.h"
#include "models/model.h"
#include "tests/device.h"
#include "tests/runtime/toy_passes.h"

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
// Changes one element of what a block has just computed, at place().
inline void poke(void* data, DType type, int64_t i, float value) {
  const size_t size = core::dtype_size(type);
  test::Visible<std::byte> element(size);
  write(element.data(), type, 0, value);
  core::copy_bytes(static_cast<std::byte*>(data) + static_cast<size_t>(i) * size, element.data(), size);
  test::settle();
}

// A program with a fault may hand a block anything.
inline int32_t checked_id(int32_t id, int64_t vocab) {
  if (id >= vocab) throw core::DataError("id " + std::to_string(id) + " is not in the vocabulary");
  return id;
}

struct OnCpu {
  template <class F>
  static void each(int64_t n, const F& f) {
    for (int64_t i = 0; i < n; ++i) f(i);
  }
  template <class F>
  static double sum(int64_t n, const F& f) {
    double total = 0;
    for (int64_t i = 0; i < n; ++i) total += f(i);
    return total;
  }
  static float read(const void* data, DType type, int64_t i) { return testing::read(data, type, i); }
  static void write(void* data, DType type, int64_t i, float value) { testing::write(data, type, i, value); }
  static int32_t id(int32_t id, int64_t vocab) { return checked_id(id, vocab); }
};

class ToyBlock : public models::Block {
 public:
  ToyBlock(std::string name, int64_t width, std::vector<Param> params)
      : name_(std::move(name)), width_(width), params_(std::move(params)) {}
  const std::string& name() const override { return name_; }
  const std::vector<Param>& params() const override { return params_; }
  int64_t output_width() const override { return width_; }
  uint64_t saved_bytes(const Shape&, size_t) const override { return 0; }
  uint64_t forward_workspace_bytes(const Shape&) const override { return 0; }
  uint64_t backward_workspace_bytes(const Shape&, models::Parts, models::Half) const override { return 0; }
  bool backward_reads_input() const override { return true; }
  bool draws_numbers() const override { return false; }
  void decode(const Call&) const override {}
  double forward_flops(const Shape&, models::Parts) const override { return 0; }

 protected:
  // Runs a pass where the calling thread's kernels run.
  void run(ToyPass pass, const Call& call, int64_t vocab) const {
    ToyCall c{};
    c.type = call.shape.type, c.grad_type = call.shape.grad_type;
    c.rows = call.shape.rows(), c.width = width_, c.vocab = vocab;
    c.tokens = call.tokens, c.targets = call.targets;
    c.input = call.input, c.d_output = call.d_output, c.output = call.output, c.d_input = call.d_input;
    for (size_t p = 0; p < params_.size(); ++p) {
      c.weights[p] = call.weights[p];
      if (call.grads.empty()) continue;
      c.grads[p] = call.grads[p], c.accumulate[p] = call.accumulate[p] != 0;
    }
    c.saved = reinterpret_cast<float*>(call.saved_of(0)), c.workspace = reinterpret_cast<float*>(call.workspace);
    c.loss = call.loss, c.loss_scale = call.loss_scale;
    if (core::place().device == core::DeviceKind::cuda) return launch_toy(pass, c);
    run_toy<OnCpu>(pass, c);
  }

  std::string name_;
  int64_t width_;
  std::vector<Param> params_;
};

class ToyEmbedding : public ToyBlock {
 public:
  ToyEmbedding(int64_t vocab, int64_t width)
      : ToyBlock("embed", width, {{"embed.weight", {vocab, width}, Init::normal, 0.3f}}), vocab_(vocab) {}
  uint64_t saved_bytes(const Shape& shape, size_t) const override { return static_cast<uint64_t>(shape.rows()) * 4; }
  void forward(const Call& call) const override { run(ToyPass::embedding_forward, call, vocab_); }
  void backward(const Call& call) const override { run(ToyPass::embedding_backward, call, vocab_); }

 private:
  int64_t vocab_;
};

class ToyLinear : public ToyBlock {
 public:
  ToyLinear(const std::string& name, int64_t width, const std::string& weight)
      : ToyBlock(name, width,
                 {{weight, {width, width}, Init::normal, 0.4f}, {name + ".bias", {width}, Init::zeros, 0}}) {}
  uint64_t forward_workspace_bytes(const Shape&) const override { return 200; }
  uint64_t saved_bytes(const Shape& shape, size_t) const override { return static_cast<uint64_t>(shape.rows()) * 4; }
  void forward(const Call& call) const override { run(ToyPass::linear_forward, call, 0); }
  const models::Anatomy& anatomy() const override {
    static const models::Anatomy halves{{"linear"}, {}, {}, 0, 1};
    return halves;
  }
  // Input, gradient of the output, and what forward has kept.
  uint64_t held_bytes(const Shape& shape, size_t) const override {
    return 2 * row_bytes(shape) + saved_bytes(shape, 0);
  }
  void backward(const Call& call) const override {
    if (call.half != models::Half::weight) run(ToyPass::linear_input, call, 0);
    Call later = call;
    std::byte* held = call.held_of(0);
    std::byte* const places[] = {held == nullptr ? nullptr : held + 2 * row_bytes(call.shape)};
    if (held != nullptr) later.input = held, later.d_output = held + row_bytes(call.shape), later.saved = places;
    if (call.half == models::Half::input) {
      core::copy_bytes(held, call.input, row_bytes(call.shape));
      core::copy_bytes(held + row_bytes(call.shape), call.d_output, row_bytes(call.shape));
      core::copy_bytes(places[0], call.saved_of(0), saved_bytes(call.shape, 0));
    } else {
      run(ToyPass::linear_weights, later, 0);
    }
  }

 private:
  uint64_t row_bytes(const Shape& shape) const {  // of all rows
    return static_cast<uint64_t>(shape.rows() * width_) * core::dtype_size(shape.type);
  }
};

class ToyHead : public ToyBlock {
 public:
  ToyHead(int64_t vocab, int64_t width, bool tied)
      : ToyBlock("head", width, {{tied ? "embed.weight" : "head.weight", {vocab, width}, Init::normal, 0.3f}}),
        vocab_(vocab) {}
  uint64_t backward_workspace_bytes(const Shape& shape, models::Parts, models::Half) const override {
    return workspace(shape);
  }
  uint64_t forward_workspace_bytes(const Shape& shape) const override {
    return shape.mode == models::Mode::eval ? workspace(shape) : 0;
  }
  void forward(const Call& call) const override {
    if (call.shape.mode == models::Mode::eval) run(ToyPass::head_evaluate, call, vocab_);
  }
  void backward(const Call& call) const override { run(ToyPass::head_backward, call, vocab_); }

 private:
  uint64_t workspace(const Shape& shape) const { return static_cast<uint64_t>(shape.rows() * vocab_) * 4; }

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
