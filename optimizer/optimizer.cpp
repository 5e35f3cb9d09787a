#include "optimizer/optimizer.h"

namespace zrt::optimizer {

void Optimizer::decide(const Rates& rates, Progress& progress, Decision& decision) const {
  decision.updates = ++progress.updates;
  decision.lr = rates.lr;
}

UnitState element_wise(const Unit& unit, std::string kind, core::Category category, core::Form form) {
  UnitState state{std::move(kind), category, true, unit.elements, {}, form};
  for (const UnitParam& param : unit.params)
    state.tensors.push_back({&param, param.param->whole_shape(), param.offset});
  return state;
}

}  // namespace zrt::optimizer
