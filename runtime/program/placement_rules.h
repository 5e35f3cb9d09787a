// From the rules of a configuration to the home of every state of every unit.
#pragma once
#include "runtime/config/memory.h"
#include "runtime/program/layout.h"

namespace zrt::runtime {

// Of a layout that is complete but for its placement. Empty where everything stays in the device tier and nothing is
// computed again. Budgets are not looked at: where MemoryConfig leaves open what they ask for, a caller may move what
// is in the device tier, and then places updates anew.
//
// Throws ConfigError for a rule that matches nothing, names a state that the run does not have, or matches some of a
// unit's parameters only: their states lie in one piece.
Placement make_placement(const MemoryConfig& memory, const Layout& layout);

// Sets UnitHomes::update of all units, as `side` asks.
void place_updates(UpdateSide side, const Layout& layout, Placement& placement);

// The transformer layers of a model are its blocks without the first (embedding) and the last (head).
inline size_t layer_count(const models::Model& model) {
  return model.blocks.size() - 2;
}
inline size_t block_of_layer(size_t layer) {
  return layer + 1;
}

}  // namespace zrt::runtime
