#include "mean_block.h"

#include <cmath>

#include "core/error.h"
#include "models/bump_allocator.h"
#include "models/kernels/gemm.h"

using namespace zrt::models;

namespace {

// The buffers of one call. With a null base the layouts only tell their size, so sizes and addresses cannot disagree.
// All are (B·T, C) in fp32.
struct Saved {
  BumpAllocator layout;
  float *mean, *gate;
  Saved(std::byte* base, uint64_t bytes)
      : layout(base), mean(layout.take<float>(bytes)), gate(layout.take<float>(bytes)) {}
};

// x·U, the product of rows with a weight; d·Uᵀ, added to a gradient of x; xᵀ·d, the gradient of a weight.
GemmSpec product(int64_t rows, int64_t C) {
  return {.M = rows, .N = C, .K = C, .lda = C, .ldb = C, .ldc = C};
}
GemmSpec input_gradient(int64_t rows, int64_t C) {
  return {.M = rows, .N = C, .K = C, .trans_b = true, .lda = C, .ldb = C, .ldc = C, .accumulate = true};
}
GemmSpec weight_gradient(int64_t rows, int64_t C, bool accumulate) {
  return {.M = C, .N = C, .K = rows, .trans_a = true, .lda = C, .ldb = C, .ldc = C, .accumulate = accumulate};
}

struct Workspace {
  BumpAllocator layout;
  float *first, *second;
  std::byte* gemm;
  Workspace(std::byte* base, uint64_t bytes, uint64_t gemm_bytes)
      : layout(base),
        first(layout.take<float>(bytes)),
        second(layout.take<float>(bytes)),
        gemm(layout.take<std::byte>(gemm_bytes)) {}
};

uint64_t activation_bytes(const Shape& shape, int64_t C) {
  if (shape.type != DType::f32) throw zrt::core::ConfigError("MeanBlock computes in fp32; switch bf16.enabled off");
  return static_cast<uint64_t>(shape.rows() * C) * sizeof(float);
}

uint64_t gemm_bytes(const Shape& shape, int64_t C) {
  uint64_t most = find_gemm(product(shape.rows(), C)).workspace_bytes();
  if (shape.mode != Mode::train) return most;
  most = std::max(most, find_gemm(input_gradient(shape.rows(), C)).workspace_bytes());
  most = std::max(most, find_gemm(weight_gradient(shape.rows(), C, false)).workspace_bytes());
  return std::max(most, find_gemm(weight_gradient(shape.rows(), C, true)).workspace_bytes());
}

}  // namespace

MeanBlock::MeanBlock(int64_t index, int64_t width) : name_("mean." + std::to_string(index)), width_(width) {
  const float deviation = 0.5f / std::sqrt(static_cast<float>(width));
  params_ = {{name_ + ".u.weight", {width, width}, Init::normal, deviation},
             {name_ + ".g.weight", {width, width}, Init::normal, deviation}};
}

uint64_t MeanBlock::saved_bytes(const Shape& shape, size_t) const {
  return Saved(nullptr, activation_bytes(shape, width_)).layout.bytes();
}

uint64_t MeanBlock::forward_workspace_bytes(const Shape& shape) const {
  return Workspace(nullptr, activation_bytes(shape, width_), gemm_bytes(shape, width_)).layout.bytes();
}

uint64_t MeanBlock::backward_workspace_bytes(const Shape& shape, Parts, Half) const {
  return forward_workspace_bytes(shape);
}

void MeanBlock::forward(const Call& call) const {
  const int64_t C = width_, rows = call.shape.rows();
  const uint64_t bytes = activation_bytes(call.shape, C);
  const Workspace work(call.workspace, bytes, gemm_bytes(call.shape, C));
  const Saved saved(call.saved_of(0), bytes);  // null outside training
  const float* x = static_cast<const float*>(call.input);
  float* y = static_cast<float*>(call.output);
  const Gemm& gemm = find_gemm(product(rows, C));
  gemm.run(x, call.weights[0], work.first, nullptr, work.gemm);
  gemm.run(x, call.weights[1], work.second, nullptr, work.gemm);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t t = row % call.shape.T;
    for (int64_t i = row * C; i < (row + 1) * C; ++i) {
      if (t > 0) work.first[i] += work.first[i - C];  // becomes the sum over the past
      const float mean = work.first[i] / static_cast<float>(t + 1);
      const float gate = 1 / (1 + std::exp(-work.second[i]));
      if (saved.mean != nullptr) saved.mean[i] = mean, saved.gate[i] = gate;
      y[i] = x[i] + gate * mean;
    }
  }
}

void MeanBlock::backward(const Call& call) const {
  const int64_t C = width_, rows = call.shape.rows();
  const uint64_t bytes = activation_bytes(call.shape, C);
  const Workspace work(call.workspace, bytes, gemm_bytes(call.shape, C));
  const Saved saved(call.saved_of(0), bytes);
  const float* dy = static_cast<const float*>(call.d_output);
  float* dx = static_cast<float*>(call.d_input);
  float *du = work.first, *dg = work.second;
  // u_s reaches every mean from s on, so its gradient is summed from the end of a sample.
  for (int64_t row = rows - 1; row >= 0; --row) {
    const int64_t t = row % call.shape.T;
    for (int64_t i = row * C; i < (row + 1) * C; ++i) {
      const float gate = saved.gate[i];
      du[i] = dy[i] * gate / static_cast<float>(t + 1) + (t + 1 < call.shape.T ? du[i + C] : 0);
      dg[i] = dy[i] * saved.mean[i] * gate * (1 - gate);
      dx[i] = dy[i];
    }
  }
  const Gemm& to_input = find_gemm(input_gradient(rows, C));
  to_input.run(du, call.weights[0], dx, nullptr, work.gemm);
  to_input.run(dg, call.weights[1], dx, nullptr, work.gemm);
  for (size_t p : {size_t{0}, size_t{1}}) {
    if (call.grads[p] == nullptr) continue;  // frozen
    find_gemm(weight_gradient(rows, C, call.accumulate[p] != 0))
        .run(call.input, p == 0 ? du : dg, call.grads[p], nullptr, work.gemm);
  }
}

void MeanBlock::decode(const Call&) const {
  throw zrt::core::Error("MeanBlock keeps no cache, so it cannot generate text");
}

double MeanBlock::forward_flops(const Shape& shape, Parts) const {
  return 4.0 * static_cast<double>(shape.rows()) * static_cast<double>(width_) * static_cast<double>(width_);
}
