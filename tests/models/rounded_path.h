// Bounds how far what blocks compute in bf16 lies from fp64, by how often values are rounded on the way. No instruction
// set and no order of sums has a part in it: sums are of fp32, whose rounding is 2^-16 of that of bf16.
//
// A value that is stored in bf16 is rounded to 8 bits: by an error that is uniform within half a unit of its last
// place, so 2^-8 / sqrt(3) of its power of two in the root mean square. Mantissas m are spread as 1 / m, so the values'
// own root mean square is sqrt(3 / (2 ln 2)) times that power: a rounded tensor is 2^-8 · sqrt(2 ln 2 / 9) = 1.53e-3 of
// its norm off. Errors of different roundings are unrelated, so that their squares add up. A rounding would make a
// gradient behind it as much wrong as the rounded tensor is, if all steps were linear and every value had one way to
// every gradient: N roundings together, sqrt(N) times as much.
//
// Two things change that. Steps amplify and dampen: softmax makes the error of a score one of its size; norms take a
// part out; a sum of two streams thins out the error of either; a value that backward reads again enters by two ways.
// And a test sees one sample of the errors. Both were looked at in fp64, with errors planted where blocks round, over
// all four models, the shapes of these tests and weights of several seeds. The gradient's error was 0.6 to 1.4 times
// that of gain 1, largest where SwiGLU multiplies two rounded strips; sums in other orders, which round other values
// up, moved it by a standard deviation of a thirtieth on average, an eighth at most. Single tensors' errors were up
// to 2.0 times that of gain 1, those of queries and keys, differences that softmax leaves, up to 3.2. So a gradient as
// a whole is allowed twice the error of gain 1: sqrt(2) for the gain, sqrt(2) for the sample; a tensor twice as much,
// and queries and keys twice as much again.
#pragma once
#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "models/model.h"
#include "tests/models/golden.h"

namespace zrt::test {

// The error of one rounding to bf16, by the norm of what is rounded.
inline const double bf16_rounding = 0x1p-8 * std::sqrt(2 * std::numbers::ln2 / 9);

// Roundings on the longest way through a layer, as the CPU makes them (a GPU's fused kernels make fewer).
struct LayerRoundings {
  int forward, backward;
};
// Forward: norm, queries, keys and values, softmax, heads, projection, stream, norm, input of GELU, GELU, MLP, stream.
// Backward: GELU's output and input, norm's output, stream, heads, scores, queries with keys and values, norm's output,
// stream.
inline LayerRoundings layer_roundings(const models::Gpt2Config&) {
  return {11, 9};
}
// Queries, keys and values have a product each, whose gradients of the norm's output are added up one by one; behind
// norms the stream is added to that.
inline LayerRoundings layer_roundings(const models::BertConfig& config) {
  return {11, config.pre_norm ? 11 : 13};
}
// Llama's layers round as before, and more: queries and keys are rotated and, with norms of heads, normed before;
// SwiGLU has two inputs. Norms behind attention and MLP make an output each, and their backward a gradient.
inline LayerRoundings layer_roundings(const models::LlamaConfig& config) {
  const int norms = (config.head_norms ? 1 : 0) + (config.gemma ? 2 : 0);
  return {13 + norms, 14 + norms};
}

// The head's own layer in front of the logits: product, GELU, norm.
template <class Config>
constexpr int transform_roundings = std::is_base_of_v<models::BertConfig, Config> ? 3 : 0;

// Gemma's heads are normed with gains of about 2 each in these tests, or its scores are large: softmax makes the error
// of a score one of its size. transformers' own bf16 gradients grow from Llama to Gemma by more than is allowed for
// here, as a whole from 2.4e-2 to 3.7e-2 (Gemma 3, 1.53 times) and 1.1e-1 (Gemma 2), single tensors' from 2.7e-2
// to 7.1e-2 and 1.3e-1 (tests/data/measure_rounding.py): the bound of Gemma 3 as a whole, 3.1e-2, is 0.84 of what
// transformers has.
template <class Config>
double amplification(const Config& config) {
  if constexpr (std::is_base_of_v<models::LlamaConfig, Config>) return config.gemma ? 1.6 : 1;
  return 1;
}

// Logits: embedding, layers, last norm, the logits themselves.
template <class Config>
double rounded_logits(const Config& config) {
  const int64_t N = 3 + transform_roundings<Config> + config.layers * layer_roundings(config).forward;
  return 2 * amplification(config) * bf16_rounding * std::sqrt(static_cast<double>(N));
}

// The loss of a batch with so many targets. A token's loss changes by (p - y) · its logits' errors; p - y has a norm of
// 1, about, as the logits have a root mean square (weights within 0.2, rows of up to 64), and the loss is ln V. Rows'
// errors are unrelated. What is seen is one sample of the sum: four standard deviations are allowed. (The order of
// BERT's two runs counts as several targets, so that half of them are unrelated.)
template <class Config>
double rounded_loss(const Config& config, const Batch& batch) {
  const auto targets = std::count_if(batch.targets.begin(), batch.targets.end(), [](int32_t t) { return t >= 0; });
  const double unrelated = std::max(1.0, static_cast<double>(targets) / (transform_roundings<Config> > 0 ? 2 : 1));
  return 2 * rounded_logits(config) / (std::log(static_cast<double>(config.vocab)) * std::sqrt(unrelated));
}

// The gradient as a whole: the logits' N; gradients of logits, norm and its input; layers; the gradient itself.
template <class Config>
double rounded_gradient(const Config& config) {
  const LayerRoundings layer = layer_roundings(config);
  const int64_t N = 7 + 2 * transform_roundings<Config> + config.layers * (layer.forward + layer.backward);
  return 2 * amplification(config) * bf16_rounding * std::sqrt(static_cast<double>(N));
}

}  // namespace zrt::test
