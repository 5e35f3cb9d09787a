// Turns the rules of a configuration into the resident tier of every state of every unit.
#pragma once
#include "runtime/config/memory.h"
#include "runtime/program/layout.h"

namespace zrt::runtime {

// Returns the placement for a layout that is complete but for it. It is empty where everything stays in the device tier
// and nothing is computed again. Budgets are not looked at: where MemoryConfig leaves open what they ask for, a caller
// may move what is in the device tier, and then places updates anew.
//
// Throws ConfigError for a rule that matches nothing of a whole model, names a state that the run does not have, or
// matches some of a unit's parameters only: their states lie in one piece.
Placement make_placement(const MemoryConfig& memory, const Layout& layout);

// Sets UnitTiers::update of all units, as `side` asks.
void place_updates(UpdateSide side, const Layout& layout, Placement& placement);

// The transformer layers of a model, from 0, are its blocks without the embedding and the head. A stage of a pipeline
// has some of them, which keep their numbers.
inline size_t layer_count(const models::Model& model) {  // of the whole
  return (model.whole ? model.whole->blocks : model.blocks.size()) - 2;
}
inline size_t layer_of(const models::Model& model, size_t block) {
  return model.whole_number(block) - 1;
}
std::vector<size_t> layer_blocks(const models::Model& model);  // that are layers, in order

}  // namespace zrt::runtime
