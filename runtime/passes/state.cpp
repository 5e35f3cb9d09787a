#include <fmt/format.h>

#include "runtime/passes/draft.h"
#include "runtime/program/control.h"
#include "runtime/program/expert_loads.h"

namespace zrt::runtime {
namespace {
using core::Category;

Life life_of_gradients(const Layout& layout) {
  if (layout.late_updates()) return Life::carried;  // updates of the next step read what this one leaves
  // A unit's only gradient of the step goes into its update, behind which its bytes hold another unit's.
  if (layout.early_updates() && layout.microbatches == 1) return Life::transient;
  return Life::reserved;
}

}  // namespace

StateBuffers add_state(ProgramSet& set, const Layout& layout, bool training) {
  StateBuffers state;
  const size_t units = layout.units.units.size();
  state.weight.resize(units, no_buffer);
  state.grad = state.master = state.weight;
  state.states.resize(units);
  for (size_t u = 0; u < units; ++u) {
    const optimizer::Unit& unit = layout.units.units[u];
    auto add_bytes = [&](const std::string& kind, Category category, Life life, uint64_t bytes) {
      return set.add({fmt::format("{} of {}", kind, unit.name), category, life, bytes, 1, 0});
    };
    auto add = [&](const std::string& kind, Category category, Life life, optimizer::Extent extent, core::DType type) {
      const uint64_t bytes = static_cast<uint64_t>(unit.extent(extent)) * core::dtype_size(type);
      return add_bytes(kind, category, life, bytes);
    };
    state.weight[u] = add_bytes("weight", Category::weights, Life::carried,
                                core::form_bytes(layout.weight_form(unit), unit.extent(unit.held.weights)));
    if (!training || !unit.trained) continue;
    state.grad[u] = add("grad", Category::grads, life_of_gradients(layout), unit.held.grads, layout.grad);
    if (layout.has_master(unit)) {
      state.master[u] = add("master", Category::master, Life::carried, unit.held.states, core::DType::f32);
    }
    for (const optimizer::UnitState& kind : layout.optimizer->states(unit)) {
      state.states[u].push_back(add_bytes(kind.kind, kind.category, Life::carried, kind.bytes_of(unit)));
    }
  }
  state.control = set.add({"control", Category::staging, Life::carried, sizeof(Control), 1, 0});
  state.shares = set.add({"control shares", Category::comm, Life::transient,
                          sizeof(ControlShare) * static_cast<uint64_t>(layout.mesh.world()), 1, 0});
  if (const uint64_t bytes = expert_load_bytes(*layout.model); training && bytes > 0) {
    state.loads = set.add({std::string(expert_loads), Category::staging, Life::reserved, bytes, 1, 0});
  }
  if (training && layout.update_when != UpdateWhen::after_norm) {
    state.ahead = set.add({"decision ahead", Category::staging, Life::transient, sizeof(Control), 1, 0});
  }
  return state;
}

}  // namespace zrt::runtime
