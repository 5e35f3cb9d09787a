#include "tests/models/reference_trainer.h"

#include <algorithm>
#include <cmath>

namespace zrt::test {

void reference_adam(const ReferenceAdam& adam, double lr, const Tensors& grads, AdamMoments& moments, Tensors& params) {
  const double t = static_cast<double>(++moments.steps);
  const double correction1 = adam.bias_correction ? 1 - std::pow(adam.beta1, t) : 1;
  const double correction2 = adam.bias_correction ? 1 - std::pow(adam.beta2, t) : 1;
  for (auto& [name, weight] : params) {
    std::vector<double>&m = moments.moment1[name], &v = moments.moment2[name];
    m.resize(weight.size());
    v.resize(weight.size());
    for (size_t i = 0; i < weight.size(); ++i) {
      double g = grads.at(name)[i];
      if (adam.decoupled) {
        weight[i] -= lr * adam.weight_decay * weight[i];
      } else {
        g += adam.weight_decay * weight[i];
      }
      m[i] = adam.beta1 * m[i] + (1 - adam.beta1) * g;
      v[i] = adam.beta2 * v[i] + (1 - adam.beta2) * g * g;
      weight[i] -= lr * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + adam.eps);
    }
  }
}

double global_norm(const Tensors& grads) {
  double sum = 0;
  for (const auto& [name, grad] : grads)
    for (double g : grad) sum += g * g;
  return std::sqrt(sum);
}

double clip_gradients(Tensors& grads, double limit) {
  const double norm = global_norm(grads);
  const double c = limit > 0 ? (norm + 1e-6) / limit : 0;
  if (c > 1)
    for (auto& [name, grad] : grads)
      for (double& g : grad) g /= c;
  return norm;
}

std::vector<ReferenceStep> train_with(const Oracle& oracle, const ReferenceRun& run, Tensors& params) {
  std::vector<ReferenceStep> steps;
  AdamMoments moments;
  for (int64_t step = 0; step < run.steps; ++step) {
    Tensors grads = params;
    for (auto& [name, grad] : grads) std::fill(grad.begin(), grad.end(), 0.0);
    double loss_sum = 0;
    int64_t tokens = 0;
    for (int64_t rank = 0; rank < run.dp; ++rank)
      for (int64_t micro = 0; micro < run.accumulation; ++micro) {
        const Batch batch = run.batch(step, rank, micro);
        const double global_tokens = static_cast<double>(batch.B * batch.T * run.dp * run.accumulation);
        const ReferenceResult result = oracle(params, batch, 1 / global_tokens);
        loss_sum += result.loss_sum;
        tokens += batch.B * batch.T;
        for (auto& [name, grad] : grads)
          for (size_t i = 0; i < grad.size(); ++i) grad[i] += result.grads.at(name)[i];
      }
    const double norm = clip_gradients(grads, run.clip);
    reference_adam(run.adam, run.rate ? run.rate(step) : run.adam.lr, grads, moments, params);
    steps.push_back({loss_sum / static_cast<double>(tokens), norm});
  }
  return steps;
}

}  // namespace zrt::test
