// Training in fp64 on one rank: the oracle that every mesh, stage and accumulation of the runtime must agree with.
#pragma once
#include <functional>

#include "tests/models/reference.h"

namespace zrt::test {

struct ReferenceAdam {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  bool decoupled = true;  // AdamW; false adds weight_decay · weight to the gradient
  bool bias_correction = true;
};

struct AdamMoments {
  Tensors moment1, moment2;  // empty before the first step
  int64_t steps = 0;
};

// One step with the rule of torch.optim.AdamW (Loshchilov and Hutter, ICLR 2019); every tensor decays.
void reference_adam(const ReferenceAdam& adam, double lr, const Tensors& grads, AdamMoments& moments, Tensors& params);

double global_norm(const Tensors& grads);
// DeepSpeed's rule: c = (norm + 1e-6) / limit, divide by c when c > 1. limit 0: no clipping. Returns the norm before.
double clip_gradients(Tensors& grads, double limit);

struct ReferenceRun {
  ReferenceAdam adam;
  double clip = 1;
  int64_t steps = 20, accumulation = 1, dp = 1;
  std::function<double(int64_t step)> rate;  // empty: adam.lr
  // Microbatch `micro` of data-parallel rank `rank`. All microbatches of a step have equal size.
  std::function<Batch(int64_t step, int64_t rank, int64_t micro)> batch;
};
struct ReferenceStep {
  double loss, grad_norm;  // loss: mean over the global batch, before the update; norm before clipping
};

// A forward and backward of the model; see reference().
using Oracle = std::function<ReferenceResult(const Tensors& params, const Batch& batch, double scale)>;

// Trains `params` in place; gradients are those of the mean over all tokens of the global batch.
std::vector<ReferenceStep> train_with(const Oracle& oracle, const ReferenceRun& run, Tensors& params);
template <class Config>
std::vector<ReferenceStep> reference_train(const Config& config, const ReferenceRun& run, Tensors& params) {
  return train_with([&](const Tensors& weights, const Batch& batch,
                        double scale) { return reference(config, weights, batch, scale); },
                    run, params);
}

}  // namespace zrt::test
