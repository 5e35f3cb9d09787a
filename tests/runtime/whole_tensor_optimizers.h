// Optimizers that work on rows, columns and whole matrices, for tests of ranks that have slices of them.
#pragma once
#include "optimizer/groups.h"
#include "optimizer/muon_rule.h"
#include "optimizer/optimizer.h"

namespace zrt::testing {

inline optimizer::OptimizerPtr adafactor(bool momentum) {
  optimizer::AdafactorParams params;
  params.momentum = momentum;
  params.beta1 = 0.9;
  params.weight_decay = 0.01;
  return make_optimizer(params);
}

// Returns Muon for hidden matrices, beside AdamW for the rest.
inline optimizer::OptimizerPtr muon(const optimizer::MuonParams& matrices) {
  return make_split(make_optimizer(optimizer::AdamParams{0.9f, 0.95f, 1e-8f, 0.1f}), make_optimizer(matrices),
                    [](const models::Param& param, bool hidden) { return hidden && param.shape.size() == 2; });
}
inline optimizer::OptimizerPtr muon() {
  optimizer::MuonParams matrices;
  matrices.weight_decay = 0.1f;
  return muon(matrices);
}

}  // namespace zrt::testing
