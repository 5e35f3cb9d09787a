// The PyTorch goldens of tests/data (made by make_gpt2_goldens.py and make_llama_goldens.py) and the recipe both sides
// make weights and tokens by.
#pragma once
#include <string>
#include <vector>

#include "tests/models/reference.h"
#include "tests/models/reference_trainer.h"

namespace zrt::test {

// Uniform in [-1, 1), from the name.
std::vector<double> recipe_numbers(const std::string& name, size_t count);
// fp32 values, held as fp64: gains around 1, biases within 0.1, matrices within 0.2.
Tensors recipe_weights(const std::vector<TensorShape>& shapes);
template <class Config>
Tensors recipe_weights(const Config& config) {
  return recipe_weights(tensors_of(config));
}
// Batch number `index` of a stream in which three of four tokens follow from the one before.
Batch recipe_batch(int64_t vocab, int64_t B, int64_t T, int64_t index);
template <class Config>
Batch recipe_batch(const Config& config, int64_t B, int64_t T, int64_t index) {
  return recipe_batch(config.vocab, B, T, index);
}

// Samples of two runs of text, each with a separator behind it, and targets for some tokens.
Batch recipe_batch(const models::BertConfig& config, int64_t B, int64_t T, int64_t index);
// Both arrangements of it as types of their own.
struct MegatronBertConfig : models::BertConfig {
  MegatronBertConfig() { pre_norm = true; }
};
inline Batch recipe_batch(const MegatronBertConfig& config, int64_t B, int64_t T, int64_t index) {
  return recipe_batch(static_cast<const models::BertConfig&>(config), B, T, index);
}
// Gemma's blocks as a type of their own.
struct GemmaConfig : models::LlamaConfig {
  GemmaConfig() { gemma = true; }
};

// The bias of keys adds the same to all scores of a query, which softmax ignores: its true gradient is zero.
inline bool has_no_gradient(const std::string& name) {
  return name.ends_with("self.key.bias");
}

// Returns how many times as much as others a gradient may be rounded. At weights near zero BERT's queries attend to all
// keys alike, and what is left of the gradients of queries and keys is a difference of nearly equal numbers: PyTorch's
// own fp32 ones are up to 9.1e-6 off there, and within 1e-6 elsewhere. A bias of keys that are turned by their
// positions has a gradient by these turns alone, which is such a difference, too: transformers' own of Qwen2 are 2.9
// times as far off as its other tensors (2.09e-6 and 7.1e-7 in fp32, 3.4e-2 and 1.2e-2 in bf16;
// tests/data/measure_rounding.py).
inline double rounding_of(const std::string& name) {
  if (name.ends_with("k_proj.bias")) return 3;
  return name.find("self.query") != std::string::npos || name.find("self.key") != std::string::npos ? 20 : 1;
}

// The goldens exist for Gpt2Config and LlamaConfig.

// Loss, logits and gradients of the mean loss of one batch, all fp64.
template <class Config>
struct GoldenGradients {
  Config config;
  Batch batch;
  double loss = 0;
  std::vector<double> logits;
  Tensors grads;
};
template <class Config>
GoldenGradients<Config> golden_gradients(bool tied);

// An AdamW run with a constant rate on recipe_batch(config, B, T, step).
template <class Config>
struct GoldenCurve {
  Config config;
  ReferenceRun run;
  std::vector<ReferenceStep> steps;
  // L2 of each (master) weight after the last step, of without_key_bias().
  std::vector<std::pair<std::string, double>> final_weight_norm;
};
// `type` is "fp64", "fp32" or "bf16" (bf16 weights, activations and gradients; fp32 master weights and moments).
template <class Config>
GoldenCurve<Config> golden_curve(bool tied, const std::string& type);

// The tensor, or for "…c_attn.bias" its query and value parts: softmax ignores the key part, so its true gradient is
// zero and Adam amplifies nothing but rounding there.
std::vector<double> without_key_bias(const std::string& name, const std::vector<double>& values);

// Relative L2 distance |a - b| / |b|; infinite when a value of `a` is not finite or the sizes differ.
double distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace zrt::test
