// Hyperparameters of the optimizers, with the names and defaults of DeepSpeed, PyTorch and Hugging Face.
#pragma once
#include <variant>

namespace zrt::optimizer {

struct AdamParams {
  float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0;
  bool decoupled = true;  // AdamW; false adds weight_decay · weight to the gradient
  bool bias_correction = true;
};

using OptimizerParams = std::variant<AdamParams>;

}  // namespace zrt::optimizer
