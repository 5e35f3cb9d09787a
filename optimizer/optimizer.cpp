#include "optimizer/optimizer.h"

namespace zrt::optimizer {

std::shared_ptr<const Optimizer> make_optimizer(const OptimizerParams& params) {
  return std::visit([](const auto& of) { return make_optimizer(of); }, params);
}

void Optimizer::decide(const Rates& rates, Progress& progress, Decision& decision) const {
  decision.updates = ++progress.updates;
  decision.lr = rates.lr;
}

std::vector<UnitState> unit_states(const OptimizerParams& params, const Unit& unit) {
  return make_optimizer(params)->states(unit);
}

UnitState element_wise(const Unit& unit, std::string kind, core::Category category, core::Form form) {
  UnitState state{std::move(kind), category, true, unit.elements, {}, form};
  for (const UnitParam& param : unit.params) state.tensors.push_back({&param, param.param->shape, param.offset});
  return state;
}

int64_t alignment_of(const OptimizerParams& params) {
  const auto* adam = std::get_if<AdamParams>(&params);
  return adam && adam->moments == Moments::int8 ? core::form_block : unit_alignment;
}

}  // namespace zrt::optimizer
