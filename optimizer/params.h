// Hyperparameters of the optimizers, with the names and defaults of DeepSpeed, PyTorch and Hugging Face.
#pragma once
#include <variant>

namespace zrt::optimizer {

// (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.)
struct AdamParams {
  float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0;
  bool decoupled = true;  // AdamW; false adds weight_decay · weight to the gradient
  bool bias_correction = true;
};

// torch.optim.SGD. Keeps a momentum_buffer unless momentum is 0.
struct SgdParams {
  float momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
};

// (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023.) Weight decay is decoupled.
struct LionParams {
  float beta1 = 0.9f, beta2 = 0.99f, weight_decay = 0;
};

// transformers.optimization.Adafactor.
// (Shazeer and Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", 2018.)
struct AdafactorParams {
  double eps1 = 1e-30, eps2 = 1e-3;  // added to squared gradients; smallest parameter scale
  double clip_threshold = 1;         // largest root mean square of a parameter's update
  double decay_rate = -0.8;          // the second moment's beta at step t is 1 - t^decay_rate
  bool momentum = false;             // whether beta1 is given
  double beta1 = 0;
  double weight_decay = 0;
  bool scale_parameter = true;  // multiply the rate by the parameter's root mean square
  bool relative_step = true;    // the rate follows from the step number; the schedule's is not used
  bool warmup_init = false;
};

using OptimizerParams = std::variant<AdamParams, SgdParams, LionParams, AdafactorParams>;

}  // namespace zrt::optimizer
