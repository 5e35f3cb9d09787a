// The passes of the toy model's blocks as plain loops, for the CPU (in toy_model.h) and for a GPU (toy_passes.cu). What
// differs between the two is `P`: P::each(n, f) calls f(0) … f(n - 1) in any order and is done when it returns,
// P::sum(n, f) adds f(0) + f(1) + … in this order, and P::read, P::write and P::id access elements.
#pragma once
#include <cmath>
#include <cstdint>

#include "core/dtype.h"

#ifdef __CUDACC__
#define ZRT_TOY __device__
#else
#define ZRT_TOY
#endif

namespace zrt::testing {

struct ToyCall {
  core::DType type, grad_type;
  int64_t rows, width, vocab;
  const int32_t *tokens, *targets;
  const void *input, *d_output, *weights[2];
  void *output, *d_input, *grads[2];
  bool accumulate[2];
  float *saved, *workspace;
  float loss_scale;
  double* loss;
};

enum class ToyPass : uint8_t {
  embedding_forward,
  embedding_backward,
  linear_forward,
  linear_input,    // gradient of the input
  linear_weights,  // gradient of the weights
  head_evaluate,
  head_backward
};

// Launches a pass at place(), which must be a GPU.
void launch_toy(ToyPass pass, const ToyCall& call);

template <class P>
ZRT_TOY void toy_add_grad(const ToyCall& c, int p, int64_t i, float value) {
  if (c.grads[p] == nullptr) return;  // frozen
  P::write(c.grads[p], c.grad_type, i, c.accumulate[p] ? P::read(c.grads[p], c.grad_type, i) + value : value);
}

// y = s · E[token] with a factor s that depends on the token and is saved.
template <class P>
ZRT_TOY void toy_embedding_forward(const ToyCall& c) {
  P::each(c.rows, [&](int64_t r) {
    const int32_t token = P::id(c.tokens[r] < 0 ? INT32_MAX : c.tokens[r], c.vocab);
    const float scale = 1 + 0.25f * static_cast<float>(token % 3);
    if (c.saved) c.saved[r] = scale;
    for (int64_t i = 0; i < c.width; ++i) {
      P::write(c.output, c.type, r * c.width + i, scale * P::read(c.weights[0], c.type, token * c.width + i));
    }
  });
}

template <class P>
ZRT_TOY void toy_embedding_backward(const ToyCall& c) {
  P::each(c.vocab * c.width, [&](int64_t i) {
    const int64_t token = i / c.width;
    float sum = 0;
    for (int64_t r = 0; r < c.rows; ++r) {
      if (c.tokens[r] == token) sum += c.saved[r] * P::read(c.d_output, c.type, r * c.width + i % c.width);
    }
    toy_add_grad<P>(c, 0, i, sum);
  });
}

// y = x · W + b. Keeps the first column of x in `saved`, so that losing it changes the result.
template <class P>
ZRT_TOY void toy_linear_forward(const ToyCall& c) {
  P::each(c.rows * c.width, [&](int64_t i) {
    const int64_t r = i / c.width, column = i % c.width;
    if (c.saved && column == 0) c.saved[r] = P::read(c.input, c.type, i);
    float sum = P::read(c.weights[1], c.type, column);
    for (int64_t k = 0; k < c.width; ++k) {
      sum += P::read(c.input, c.type, r * c.width + k) * P::read(c.weights[0], c.type, k * c.width + column);
    }
    P::write(c.output, c.type, i, sum);
  });
}

template <class P>
ZRT_TOY void toy_linear_input(const ToyCall& c) {
  P::each(c.rows * c.width, [&](int64_t i) {
    const int64_t r = i / c.width, k = i % c.width;
    float sum = 0;
    for (int64_t j = 0; j < c.width; ++j) {
      sum += P::read(c.d_output, c.type, r * c.width + j) * P::read(c.weights[0], c.type, k * c.width + j);
    }
    P::write(c.d_input, c.type, i, sum);
  });
}

template <class P>
ZRT_TOY void toy_linear_weights(const ToyCall& c) {
  P::each((c.width + 1) * c.width, [&](int64_t i) {
    const int64_t k = i / c.width, column = i % c.width;
    float sum = 0;
    for (int64_t r = 0; r < c.rows; ++r) {
      const float x = k == 0 ? c.saved[r] : k < c.width ? P::read(c.input, c.type, r * c.width + k) : 1.0f;
      sum += x * P::read(c.d_output, c.type, r * c.width + column);
    }
    toy_add_grad<P>(c, k < c.width ? 0 : 1, k < c.width ? i : column, sum);
  });
}

// The sum of the losses; leaves the scaled gradient of the logits in the workspace.
template <class P>
ZRT_TOY void toy_head_evaluate(const ToyCall& c) {
  P::each(c.rows * c.vocab, [&](int64_t i) {
    float logit = 0;
    for (int64_t k = 0; k < c.width; ++k) {
      logit += P::read(c.input, c.type, i / c.vocab * c.width + k) *
               P::read(c.weights[0], c.type, i % c.vocab * c.width + k);
    }
    c.workspace[i] = logit;
  });
  const double total = P::sum(c.rows, [&](int64_t r) {
    float* row = c.workspace + r * c.vocab;
    double sum = 0;
    for (int64_t v = 0; v < c.vocab; ++v) sum += std::exp(static_cast<double>(row[v]));
    const int32_t target = P::id(c.targets[r], c.vocab);
    const double loss = target < 0 ? 0 : std::log(sum) - static_cast<double>(row[target]);
    for (int64_t v = 0; v < c.vocab; ++v) {
      const double p = std::exp(static_cast<double>(row[v])) / sum - (v == target ? 1 : 0);
      row[v] = target < 0 ? 0 : static_cast<float>(p) * c.loss_scale;
    }
    return loss;
  });
  P::each(1, [&](int64_t) { *c.loss = total; });
}

template <class P>
ZRT_TOY void toy_head_backward(const ToyCall& c) {
  toy_head_evaluate<P>(c);
  P::each(c.rows * c.width, [&](int64_t i) {
    const int64_t r = i / c.width, k = i % c.width;
    float sum = 0;
    for (int64_t v = 0; v < c.vocab; ++v) {
      sum += c.workspace[r * c.vocab + v] * P::read(c.weights[0], c.type, v * c.width + k);
    }
    P::write(c.d_input, c.type, i, sum);
  });
  P::each(c.vocab * c.width, [&](int64_t i) {
    const int64_t v = i / c.width, k = i % c.width;
    float sum = 0;
    for (int64_t r = 0; r < c.rows; ++r) {
      sum += c.workspace[r * c.vocab + v] * P::read(c.input, c.type, r * c.width + k);
    }
    toy_add_grad<P>(c, 0, i, sum);
  });
}

template <class P>
ZRT_TOY void run_toy(ToyPass pass, const ToyCall& call) {
  switch (pass) {
    case ToyPass::embedding_forward:
      return toy_embedding_forward<P>(call);
    case ToyPass::embedding_backward:
      return toy_embedding_backward<P>(call);
    case ToyPass::linear_forward:
      return toy_linear_forward<P>(call);
    case ToyPass::linear_input:
      return toy_linear_input<P>(call);
    case ToyPass::linear_weights:
      return toy_linear_weights<P>(call);
    case ToyPass::head_evaluate:
      return toy_head_evaluate<P>(call);
    case ToyPass::head_backward:
      return toy_head_backward<P>(call);
  }
}

}  // namespace zrt::testing
