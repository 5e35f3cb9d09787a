// Muon's parameters, and its arithmetic over elements (element_rules.h) before and after the orthogonalisation
// (muon.cpp). Every line is one or more IEEE fp32 operations, evaluated left to right, none contracted. Proposing:
//   g = grad · grad_scale
//   m = momentum · m + take · g
//   proposal = m, or with Nesterov momentum · m + take · g
// Updating, where `grad` is the orthogonalised proposal:
//   w = keep · w − rate · grad
#pragma once
#include <memory>

#include "core/host_device.h"
#include "optimizer/params.h"

namespace zrt::optimizer {

class Optimizer;

// torch.optim.Muon, of matrices. (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.)
struct MuonParams {
  float momentum = 0.95f, weight_decay = 0;
  bool nesterov = true;
  int steps = 5;                                // of the Newton–Schulz iteration
  float a = 3.4445f, b = -4.775f, c = 2.0315f;  // X becomes a X + b X Xᵀ X + c (X Xᵀ)² X
  float least_norm = 1e-7f;                     // a proposal of a smaller one is not scaled to norm 1
  Moments moments = Moments::f32;
  bool match_adamw = false;  // rate · 0.2 sqrt(the longer side), not sqrt(max(1, rows / columns))
  double lr_scale = 1;
  const char* name() const { return "Muon"; }
  float matrix_rate = 0;  // of one matrix, when it is updated: what multiplies the rate
};
// Makes the optimizer of hidden matrices alone: each parameter is refined.
std::shared_ptr<const Optimizer> make_optimizer(const MuonParams& params);

// Per-step numbers, each rounded to fp32 once.
struct MuonScalars {
  float grad_scale, momentum, take;  // take: 1 - momentum
  float keep, rate;                  // keep: 1 - lr · weight_decay
};

namespace {

struct MuonRule {
  using Params = MuonParams;
  using Scalars = MuonScalars;
  static constexpr int plain = 0, nesterov = 1, updating = 2, variants = 3;
  static constexpr int states(int variant) { return variant == updating ? 0 : 1; }
  static int variant(const MuonParams& params) {
    return params.matrix_rate > 0 ? updating : params.nesterov ? nesterov : plain;
  }

  template <class Decision>
  ZRT_HD static MuonScalars scalars(const MuonParams& params, const Decision& decision) {
    const float lr = static_cast<float>(decision.lr * params.lr_scale);
    return {decision.grad_scale, params.momentum, 1.0f - params.momentum, 1.0f - lr * params.weight_decay,
            lr * params.matrix_rate};
  }

  // `w` is the proposal, or the weight.
  template <int variant>
  ZRT_HD static void apply(const MuonScalars& s, float grad, float& w, float& m, float&) {
    if constexpr (variant == updating) {
      w = s.keep * w - s.rate * grad;
    } else {
      const float g = grad * s.grad_scale;
      m = s.momentum * m + s.take * g;
      w = variant == nesterov ? s.momentum * m + s.take * g : m;
    }
  }
};

}  // namespace
}  // namespace zrt::optimizer
