// Hyperparameters of the optimizers, with the names and defaults of DeepSpeed, PyTorch and Hugging Face.
#pragma once
#include <cstdint>

namespace zrt::optimizer {

// The form of states of element-wise optimizers (core/form.h): int8 is signed for the first, unsigned for the second.
// bf16 and int8 are rounded at random, or a state that changes by less than half of its last place a step would never
// change.
enum class Moments : uint8_t { f32, bf16, int8 };

// (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019.)
struct AdamParams {
  float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0;
  bool decoupled = true;  // AdamW; false adds weight_decay · weight to the gradient
  bool bias_correction = true;
  Moments moments = Moments::f32;
  double lr_scale = 1;  // of all of them: multiplies the step's learning rate
  const char* name() const { return decoupled ? "AdamW" : "Adam"; }
};

// torch.optim.SGD. Keeps a momentum_buffer unless momentum is 0.
struct SgdParams {
  float momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  Moments moments = Moments::f32;
  double lr_scale = 1;
  const char* name() const { return "SGD"; }
};

// (Chen et al., "Symbolic Discovery of Optimization Algorithms", 2023.) Weight decay is decoupled.
struct LionParams {
  float beta1 = 0.9f, beta2 = 0.99f, weight_decay = 0;
  Moments moments = Moments::f32;
  double lr_scale = 1;
  const char* name() const { return "Lion"; }
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
  double lr_scale = 1;
  const char* name() const { return "Adafactor"; }
};

}  // namespace zrt::optimizer
