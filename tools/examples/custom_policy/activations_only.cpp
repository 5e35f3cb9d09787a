// A placement policy from outside zrt. It evicts nothing but what layers keep for their backward, those of as few
// layers as the budget allows: no state leaves, so that every update stays on the device. Where the host computes
// slowly that is faster than zrt's own choice, which goes by the bytes that move.
#include "activations_only.h"

#include "runtime/plan/policy.h"
#include "runtime/program/placement_rules.h"

namespace {

using namespace zrt::runtime;

std::vector<Layout> propose(const FitProblem& problem, const Layout& start) {
  if (!start.open_placement) return {};
  Layout layout = start;
  layout.placement.activations.resize(layout.model->blocks.size(), Tier::device);
  for (size_t block : layer_blocks(*layout.model)) {
    layout.placement.activations[block] = Tier::host;
    if (problem.holds(layout)) return {layout};
  }
  return {};
}

}  // namespace

void add_activations_only() {
  register_placement_policy({"activations only", propose});
}
